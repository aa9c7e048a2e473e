"""ziamath reads its fonts as files of its package."""

from PyInstaller.utils.hooks import collect_data_files

hiddenimports = ["ziamath.fonts"]
datas = collect_data_files("ziamath.fonts")
