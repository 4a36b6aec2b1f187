"""Models: fetched, linked or built once, and checked by their hashes ever after."""

from ecocompute_cube.download.folder import model_folder, read_manifest, verify
from ecocompute_cube.download.hub_client import HubSettings
from ecocompute_cube.download.run import Origins, download

__all__ = ["HubSettings", "Origins", "download", "model_folder", "read_manifest", "verify"]
