"""What every room uses: errors, files that appear whole, folders of long runs, memory, threads."""
