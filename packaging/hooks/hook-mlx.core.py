"""What PyInstaller cannot see of MLX: imports made from C++, and a library that must stay where it is."""

import sys
from pathlib import Path

from PyInstaller.utils.hooks import get_module_file_attribute

hiddenimports = ["mlx._reprlib_fix", "mlx.__array_api_info"]

# MLX looks for its Metal library beside the library that was loaded. A link at the bundle's top would be loaded first,
# and the Metal library is not beside that one.
bindepend_symlink_suppression = ["**/mlx/lib/*"]

binaries = []
datas = []
if sys.platform == "darwin":
    library = Path(get_module_file_attribute("mlx.core")).parent / "lib"
    datas = [(str(library / "mlx.metallib"), "mlx/lib")]
    # Only wheels for newer systems have it, and find it by a path that PyInstaller does not follow.
    binaries = [(str(path), "mlx/lib") for path in library.glob("libjaccl.dylib")]
