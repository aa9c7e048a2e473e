"""ziafont reads its fonts as files of its package."""

from PyInstaller.utils.hooks import collect_data_files

hiddenimports = ["ziafont.fonts"]
datas = collect_data_files("ziafont.fonts")
