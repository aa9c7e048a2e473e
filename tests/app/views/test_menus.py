"""On a Mac the system finds Quit, About and Settings by their roles and puts them into the app's own menu."""

from PySide6.QtGui import QAction


def actions(menu):
    for action in menu.actions():
        yield from actions(action.menu()) if action.menu() else [action]


def test_each_role_of_the_app_s_menu_has_exactly_one_action(stage):
    window = stage("Kitchen").window
    named = {action.menuRole(): action.text() for action in actions(window.menuBar())}
    assert named[QAction.MenuRole.QuitRole] == "Quit Braid"
    assert named[QAction.MenuRole.AboutRole] == "About Braid"
    assert named[QAction.MenuRole.PreferencesRole] == "Settings …"


def test_no_other_action_is_moved_there_for_how_its_name_begins(stage):
    found = [action.text() for action in actions(stage("Kitchen").window.menuBar())]
    taken = ("about", "config", "options", "preferences", "quit", "exit", "settings", "setup")
    moved = sorted(text for text in found if text.lower().startswith(taken))
    assert moved == ["About Braid", "Quit Braid", "Settings …"]
