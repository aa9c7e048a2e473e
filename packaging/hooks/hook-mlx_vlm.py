"""mlx-vlm imports a model's code by the name in its config.json: the families that Braid runs go in."""

import contents
from PyInstaller.utils.hooks import collect_data_files, collect_submodules, copy_metadata

hiddenimports = [
    name
    for package in (*(f"models.{family}" for family in contents.families()), *contents.DRAFTERS)
    for name in collect_submodules(f"mlx_vlm.{package}")
]
datas = [*collect_data_files("mlx_vlm"), *copy_metadata("mlx-vlm")]
