"""Which tests hold which hole of the protocol closed: number -> file::function."""

DRAIN = "execution/test_drain.py"
HERE = "protocol/test_holes.py"
KEEPER = "execution/test_keeper.py"
SETTLING = "services/test_settling.py"
BROKER = "test_broker.py"
LOST = "clusters/test_lost_workers.py"
LIMITS = "clusters/test_limits.py"
OPEN = "execution/test_connections.py"

HOLES = {
    1: [
        f"{KEEPER}::test_h1_a_renewal_of_an_ended_attempt_changes_nothing_and_interrupts",
        "services/test_fencing.py::test_a_fence_is_job_attempt_and_worker",
        "services/test_assets.py::test_an_asset_of_an_attempt_that_is_over_is_refused",
    ],
    2: [
        f"{SETTLING}::test_h2_a_lapsed_job_with_attempts_left_waits_for_its_next_attempt",
        f"{SETTLING}::test_h2_what_nobody_takes_up_between_attempts_ends",
    ],
    3: [f"{DRAIN}::test_h3_h4_a_commit_whose_reply_is_lost_is_recognised"],
    4: [f"{DRAIN}::test_h3_h4_a_commit_whose_reply_is_lost_is_recognised"],
    5: [f"{SETTLING}::test_h5_a_lease_renewed_after_the_settler_read_the_row_saves_the_job"],
    6: [
        f"{SETTLING}::test_h6_a_locked_row_counts_as_alive",
        f"{LOST}::test_a_live_handler_inside_a_transaction_is_not_robbed",
        f"{LOST}::test_an_asset_is_attached_though_the_handler_locks_what_it_refers_to",
    ],
    7: [
        f"{SETTLING}::test_h7_an_error_between_two_sightings_makes_the_first_one_void",
        f"{SETTLING}::test_h7_a_database_error_clears_the_sightings",
    ],
    8: [f"{HERE}::test_h8_a_pusher_that_is_blocked_settles_all_the_same"],
    9: [
        f"{KEEPER}::test_h9_an_interrupt_after_the_body_hits_nothing",
        f"{KEEPER}::test_h9_an_interrupt_meant_for_one_attempt_never_hits_the_next",
        "cases/test_a1_limits.py::"
        "test_a13_a_limit_that_strikes_at_the_end_leaves_one_whole_outcome",
    ],
    10: [
        f"{HERE}::test_h10_a_handler_that_holds_the_interpreter_is_ended_past_its_limit",
        f"{KEEPER}::test_h10_the_watchdog_is_armed_before_the_body_begins",
    ],
    11: [f"{BROKER}::test_a_drain_is_given_no_limit_no_result_row_and_no_acknowledgement"],
    12: [
        f"{DRAIN}::test_h12_types_that_this_process_does_not_know_are_left_alone",
        f"{BROKER}::test_h12_what_nobody_here_may_run_wakes_nobody",
        f"{LIMITS}::test_a_type_that_no_worker_knows_waits_until_its_deadline",
    ],
    13: [f"{BROKER}::test_h13_a_due_job_that_nobody_can_claim_is_no_hot_loop"],
    14: [
        f"{DRAIN}::test_h14_an_error_in_the_claim_of_the_next_leaves_the_outcome",
        f"{DRAIN}::test_h14_a_real_deadlock_on_mariadb_leaves_the_outcome",
    ],
    15: [
        "models/test_clock.py::test_the_zone_of_the_session_does_not_matter",
        "models/test_clock.py::test_a_long_transaction_has_no_frozen_clock",
        "models/test_clock.py::test_all_times_of_a_job_are_true",
    ],
    16: [
        "clusters/test_exactly_once.py::"
        "test_four_workers_in_two_clusters_enter_200_bodies_once_each",
    ],
    17: [f"{HERE}::test_h17_a_job_for_tomorrow_does_not_expire_today"],
    18: [f"{DRAIN}::test_h18_listeners_run_before_the_next_job_is_claimed"],
    19: [
        f"{DRAIN}::test_h19_a_stale_word_is_not_acted_upon",
        f"{DRAIN}::test_a_drain_claims_for_a_bounded_time",
        "execution/test_switchboard.py::test_a_stop_reaches_drains_that_wait_and_drains_that_work",
    ],
    20: [
        "services/test_lifecycle.py::test_a_job_that_one_of_our_workers_holds_is_refused",
        "services/test_fencing.py::test_inside_its_own_handler_a_job_is_open",
        f"{SETTLING}::test_a_silent_outside_driver_is_lost_when_its_lease_ends",
    ],
    21: [
        f"{DRAIN}::test_h21_a_cancel_request_during_the_body_wins_over_a_retry",
        f"{SETTLING}::test_h21_a_lapsed_job_that_was_to_be_cancelled_ends_cancelled",
        f"{LIMITS}::test_a_job_between_two_attempts_is_cancelled_at_once",
    ],
    22: [
        "test_conf.py::test_the_least_backoff_is_a_tick_but_never_more_than_five_seconds",
        f"{LIMITS}::test_a_failing_job_is_repeated_with_a_growing_delay",
    ],
    23: [
        "services/test_stored_assets.py::test_each_attempt_has_a_folder_of_its_own",
        "services/test_stored_assets.py::test_an_attempt_that_is_over_leaves_no_file",
        "execution/test_context.py::test_assets_of_an_earlier_attempt_are_replaced_by_name",
    ],
    24: [
        "execution/test_finish.py::test_a_result_that_the_database_refuses_fails_the_job",
        "execution/test_finish.py::"
        "test_a_database_that_refuses_everything_does_not_keep_the_worker",
    ],
    25: [
        f"{OPEN}::test_a_transaction_that_is_left_open_fails_the_job_and_is_rolled_back",
        f"{OPEN}::test_so_does_one_that_was_opened_behind_django_s_back",
    ],
    26: [
        "checks/test_databases.py::test_transactions_on_sqlite_are_immediate",
        "checks/test_databases.py::test_writers_on_sqlite_wait_for_their_turn",
    ],
    27: [f"{BROKER}::test_h27_errors_of_the_database_stay_inside"],
    28: [
        "test_wakeup.py::"
        "test_h28_a_connection_that_does_not_hear_itself_is_not_listened_to"  # no pooler here
    ],
    29: [f"{HERE}::test_h29_of_two_retries_at_once_one_makes_a_job"],
}
