"""What vsekit promises when things fail, and the tests that keep each promise; docs/reliability.md shows them."""

from __future__ import annotations

from typing import NamedTuple


class Promise(NamedTuple):
    """tests: as file::name, below tests/."""

    section: str
    text: str
    tests: tuple[str, ...]


def _of(section: str, *promises: tuple[str, str]) -> list[Promise]:
    return [Promise(section, text, tuple(tests.split())) for text, tests in promises]


PROMISES = [
    *_of(
        "Nothing is lost",
        (
            "Any command that writes may be killed at any moment; typed again, it ends with the bytes of one never killed.",
            "attack/test_kills.py::test_killed",
        ),
        (
            "A full disk ends a command with exit code 2; with room again it ends with the same bytes.",
            "attack/test_full_disk.py::test_full_disk attack/test_full_disk.py::test_limited_files",
        ),
        (
            "An index has one writer, who holds its lock from the first look to the last write; `--rebuild` leaves it alone.",
            "search/stores/test_embedded.py::test_a_rebuild_by_another_process_leaves_alone_what_is_being_written "
            "search/stores/test_embedded.py::test_a_writer_whose_folder_was_replaced_writes_nothing_into_the_new_one",
        ),
        (
            "Folders that are gone, or empty as a whole, keep their pictures in the index until `--forget`.",
            "search/test_indexing.py::"
            "test_a_folder_that_is_gone_or_empty_as_a_whole_keeps_its_pictures_at_any_depth_until_forgotten",
        ),
        (
            "A database that ends while it is written to loses nothing it had promised, and gives no traceback.",
            "search/stores/test_postgres.py::test_a_backend_that_ends_while_writing_is_no_traceback_and_loses_nothing "
            "search/stores/test_milvus.py::test_a_writer_killed_between_any_two_steps_leaves_the_state_before_or_after",
        ),
        (
            "A PostgreSQL or Milvus that is killed and started again: indexing, typed again, ends with the same index; a "
            "server says that it is not ready, and answers as before once it is.",
            "attack/test_databases.py::test_killed_while_indexing attack/test_databases.py::test_killed_while_serving "
            "attack/test_databases.py::test_the_command_line_tells_of_a_database_that_is_not_there "
            "attack/test_databases.py::"
            "test_vse_index_ends_with_2_when_the_server_is_killed_and_typed_again_it_goes_on",
        ),
        (
            "In Milvus, a change of index or a bulk insert may be killed at any step: what was there before can be searched, "
            "and the next writer goes on or clears up.",
            "search/stores/test_milvus.py::"
            "test_a_change_of_index_killed_between_any_two_steps_is_gone_on_with_by_the_next_writer "
            "search/stores/test_milvus_bulk.py::"
            "test_a_writer_killed_in_a_bulk_insert_leaves_the_state_before_and_the_next_one_clears_up",
        ),
        (
            "Ctrl-C ends a command whose work is on Ray, and every process that it started; typed again, it goes on and ends "
            "with the files of one process.",
            "bulk/test_ctrl_c.py::test_ctrl_c_ends_a_command_on_ray_and_the_same_command_goes_on",
        ),
    ),
    *_of(
        "No wrong answer",
        (
            "A file of an index, a run, a model, a feature store, token states, mined lists, embeddings or an export that is "
            "damaged or lost is refused with exit code 2, the file and the remedy, or made again, or does no harm.",
            "attack/test_damage.py::test_damaged attack/test_damage.py::test_damaged_while_unfinished",
        ),
        (
            "An index's database with one bit changed is noticed on open, and so are vectors.",
            "search/stores/test_seal.py::test_a_flipped_bit_anywhere_in_the_database_is_noticed_on_open "
            "search/stores/test_seal.py::test_values_that_sqlite_takes_are_refused_by_who_reads_checks_or_writes "
            "search/stores/test_seal.py::"
            "test_a_changed_vector_is_noticed_on_open_and_when_another_process_has_written_it",
        ),
        (
            "A lost or shortened file of vectors is named on open, never filled with zeros; damaged ones are made again "
            "from the pictures.",
            "search/stores/test_embedded.py::"
            "test_a_lost_or_truncated_file_of_vectors_is_named_on_open_and_never_filled_with_zeros "
            "search/test_indexing.py::"
            "test_damaged_vectors_are_made_again_from_pictures_and_texts_and_nothing_else_changes",
        ),
        (
            "Weights with one bit changed are not loaded, in models and in checkpoints.",
            "models/test_model.py::test_a_weight_file_with_one_bit_changed_is_named "
            "training/test_loop.py::test_a_damaged_checkpoint_is_named",
        ),
        (
            "A server judges by the index as it is now: one that was being made, was deleted, or is another one.",
            "serve/test_engine.py::test_a_server_started_while_an_index_is_made_judges_by_the_finished_one "
            "serve/test_engine.py::test_another_index_in_its_place_is_served_and_no_request_is_dropped "
            "serve/test_engine.py::test_a_deleted_index_is_not_ready_until_there_is_one_again",
        ),
        (
            "One bad query of a batch has its own error, and touches no other.",
            "search/test_searcher.py::test_a_bad_ask_has_its_own_error_and_touches_no_other "
            "serve/test_batching.py::test_everyone_gets_the_own_answer_or_the_own_error_whatever_the_others_do "
            "search/test_query.py::test_a_weight_that_single_precision_can_not_hold_is_pointed_at",
        ),
        (
            "An uploaded picture has the embedding it was indexed with.",
            "serve/test_one_door.py::test_an_indexed_picture_that_is_uploaded_finds_itself "
            "serve/test_decoders.py::test_a_view_has_the_pixels_of_the_square_it_makes_and_no_more",
        ),
    ),
    *_of(
        "No traceback",
        (
            "No annotation file crashes a reader: it is read, or refused with its place.",
            "attack/test_readers.py::test_readers_bytes attack/test_readers.py::test_readers_values "
            "attack/test_readers.py::test_nested_and_endless_json_is_refused",
        ),
        (
            "Search goes on when PostgreSQL ends its connections; readiness says when it does not answer.",
            "search/stores/test_postgres.py::test_reading_goes_on_when_the_backends_end",
        ),
        (
            "An index that can't be written can be searched, and one that may not be read or written is told so.",
            "search/stores/test_embedded.py::"
            "test_an_index_that_cant_be_written_can_be_searched_and_says_so_when_it_is_written_to "
            "search/stores/test_embedded.py::test_an_index_that_may_not_be_read_is_not_called_none",
        ),
        (
            "Room is reserved before the work, and what is missing is said in bytes that can be read.",
            "mining/test_mine.py::test_room_for_the_lists_is_reserved_before_the_first_score_is_mined "
            "features/test_store.py::test_what_cannot_be_stored_is_refused_before_the_work",
        ),
        (
            "Files have the mode that the person's umask asks for, weights and checkpoints too.",
            "test_files.py::test_files_come_back_as_written_and_readable_by_others "
            "training/test_loop.py::test_a_damaged_checkpoint_is_named",
        ),
    ),
    *_of(
        "The server answers",
        (
            "Whatever a request holds, its answer is a described one and no 500; what is right is accepted, what is wrong "
            "refused.",
            "attack/test_requests.py::test_requests",
        ),
        (
            'The description states this server\'s limits; `"top": "5"`, `"top": true` and `"rerank": false` are '
            "refused; `Allow` names every method.",
            "serve/test_openapi.py::test_the_description_states_the_limits_of_this_server "
            "serve/test_openapi.py::test_what_is_no_whole_number_is_refused "
            "serve/test_openapi.py::test_a_wrong_method_is_told_all_that_are_right",
        ),
        (
            "Clients that send too little, too slowly or nothing that is HTTP, or don't read, keep nobody out and are cut "
            "off in time.",
            "attack/test_clients.py::test_slow_clients "
            "serve/test_connections.py::test_many_clients_with_unfinished_requests_keep_nobody_out "
            "serve/test_connections.py::test_clients_that_do_not_read_keep_nobody_out "
            "serve/test_gate.py::test_who_still_sends_a_request_keeps_nobody_out",
        ),
        (
            "Out of files, the server goes on when there are some again; its log does not repeat itself.",
            "attack/test_clients.py::test_no_files_left "
            "serve/test_connections.py::test_a_message_is_logged_once_and_then_counted",
        ),
        (
            "A hostile picture costs one process and one answer; memory of decoders is bounded and given back.",
            "attack/test_pictures.py::test_hostile_pictures attack/test_pictures.py::test_damaged_pictures "
            "serve/test_decoders.py::"
            "test_a_picture_that_takes_more_memory_than_there_is_is_refused_and_memory_is_given_back "
            "serve/test_decoders.py::test_a_process_that_had_much_memory_ends_and_idle_servers_have_none "
            "serve/test_decoders.py::test_a_decoder_that_takes_too_long_is_ended_and_the_picture_not_tried_again",
        ),
        (
            "Uploads that take long to decode hold up no search, no item and no thumbnail.",
            "serve/test_decoders.py::test_uploads_that_take_long_hold_up_no_item_and_no_thumbnail",
        ),
        (
            "A folder with hostile pictures is indexed; those that can't be read are named.",
            "attack/test_pictures.py::test_hostile_folder",
        ),
        (
            "Told to stop, the server finishes what it is doing.",
            "serve/test_run.py::test_told_to_stop_it_finishes_what_it_is_doing",
        ),
        (
            "Mixed traffic and indexing go on side by side (`make soak` reports errors and the slope of memory).",
            "tools/test_soak.py::test_a_short_soak_has_no_unexpected_answer",
        ),
    ),
    *_of(
        "Nobody gets in",
        (
            "With a token, nothing of the index is told without it, and it can't be guessed at speed.",
            "serve/test_gate.py::test_without_the_token_nothing_of_the_index_is_told "
            "serve/test_gate.py::test_a_wrong_token_is_not_guessed_at_any_speed attack/test_requests.py::test_requests",
        ),
        (
            "A closed session is closed for every copy of its cookie; cookies of other servers on the host end none.",
            "serve/test_gate.py::test_a_closed_session_is_closed_for_every_copy_of_its_cookie "
            "serve/test_gate.py::test_cookies_of_other_servers_on_the_same_host_do_not_end_a_session",
        ),
        (
            "A page of another site can't write, and can't read by a name that it makes point here.",
            "serve/test_gate.py::test_a_page_of_another_site_can_not_write "
            "serve/test_gate.py::test_a_foreign_name_for_this_host_is_refused",
        ),
        (
            "No file outside the indexed folders is read for anybody, and no query names one.",
            "serve/test_app.py::test_paths_outside_the_indexed_folders_are_never_read "
            "serve/test_app.py::test_a_query_never_names_a_file_of_the_server "
            "serve/test_pictures.py::test_a_link_that_leads_outside_is_refused",
        ),
        (
            "A model that names code is loaded only when told to.",
            "test_outside.py::test_a_model_of_parts_from_outside_is_not_loaded_from_a_folder_unless_trusted",
        ),
        (
            "`make lint` looks for known weaknesses of the packages, and says so where it can't.",
            "tools/test_weaknesses.py::test_a_known_weakness_fails_lint_and_is_named "
            "tools/test_weaknesses.py::test_without_a_database_lint_goes_on_and_says_so",
        ),
    ),
]
