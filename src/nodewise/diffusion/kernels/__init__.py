"""The compiled kernels: functions over arrays, nothing else."""
