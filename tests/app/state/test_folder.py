from app.state.folder import list_folder


def fill(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def never():
    return False


def test_media_in_all_folders_inside_are_found_in_order_and_the_rest_passed_over(tmp_path):
    fill(tmp_path, "b.png", "a.MOV", "sub/c.wav", "sub/deep/d.pdf", "notes.txt", ".hidden/e.png", "._f.png", "g.zip")
    listing = list_folder(tmp_path, 100, never)
    assert [path.name for path in listing.taken] == ["a.MOV", "b.png", "c.wav", "d.pdf"]
    assert listing.sentence("Holiday", 100) == "Took all 4 files of Holiday."


def test_no_more_are_taken_than_there_is_room_for_and_all_are_counted(tmp_path):
    fill(tmp_path, *(f"{i:03}.jpg" for i in range(12)))
    listing = list_folder(tmp_path, 10, never)
    assert listing.sentence("Holiday", 10) == "Took 10 of 12 files of Holiday. A message can hold 10 attachments."
    assert listing.limited(3).sentence("Holiday", 10).startswith("Took 3 of 12")


def test_an_empty_folder_says_what_was_looked_for(tmp_path):
    assert list_folder(tmp_path, 10, never).sentence("Holiday", 10).startswith("There is nothing in Holiday")


def test_a_link_in_a_circle_ends(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "round").symlink_to(tmp_path)
    fill(tmp_path, "a/x.png")
    assert list_folder(tmp_path, 10, never).found == 1
