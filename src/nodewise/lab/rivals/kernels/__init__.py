"""The compiled kernels of the rivals: functions over arrays, nothing else."""
