// One thread for all communicators of a process, which lets their links answer while nobody drives
// them: a peer whose rail is lost must not wait for this rank's next call. It moves no operation
// and is woken by no message. It exists while somebody is served.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace ho {

class LinkService {
 public:
  // Does what is due, and blocks for nothing; true: call again soon.
  using Serve = std::function<bool()>;

  // Served until it ends, which waits for a call that is under way.
  class Member {
   public:
    Member(std::shared_ptr<LinkService> service, Serve serve);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    const std::shared_ptr<LinkService> service_;
    std::list<Serve>::iterator position_;
  };

  // The one of this process, not of the one that it was forked from.
  [[nodiscard]] static std::shared_ptr<LinkService> of_process();
  LinkService();
  ~LinkService();
  LinkService(const LinkService&) = delete;
  LinkService& operator=(const LinkService&) = delete;

 private:
  void serve_all();

  const int process_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::list<Serve> members_;
  std::thread thread_;
};

}  // namespace ho
