"""What the measuring tools share: jobs, statistics, reports, pictures. Standard library only, but for
`picture`, which takes matplotlib when something is drawn."""
