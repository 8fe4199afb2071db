"""What every package uses: errors, atomic files, folders of resumable runs, memory, threads."""
