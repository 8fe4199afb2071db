"""From a graph and target nodes to the weights of their neighbours, and to representations."""

from nodewise.diffusion.diffuse import Diffusion, diffuse
from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.length import diffusion_lengths, tau_distance

__all__ = ["Diffusion", "diffuse", "diffusion_lengths", "ghd", "tau_distance"]
