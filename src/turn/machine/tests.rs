use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::agent::event::{Outcome, Tokens, ToolCall, ToolId, Used};
use crate::domain::grant::Refusal;
use crate::domain::ids::{MemberId, SessionId, TurnId};
use crate::turn::facts::{Secrets, TurnLimits};

const ADA: MemberId = MemberId(7);
const HOLD: Usd = Usd(1_000_000);

fn facts() -> TurnFacts {
    TurnFacts {
        id: TurnId(42),
        author: ADA,
        model: "haiku".into(),
        project: "site".parse().unwrap(),
        title: "The site".into(),
        mode: "default".into(),
        resumes: false,
        limits: TurnLimits {
            turn_time: Duration::from_secs(1_800),
            silence: Duration::from_secs(600),
            grace: Duration::from_secs(5),
        },
        at: Moment(0),
        secrets: Secrets::default(),
    }
}

fn resuming() -> TurnFacts {
    TurnFacts {
        resumes: true,
        ..facts()
    }
}

/// A turn and its clock, in seconds.
struct Stage {
    turn: Turn,
    now: Moment,
}

impl Stage {
    fn new(facts: TurnFacts) -> Stage {
        Stage {
            turn: Turn::new(facts, Moment(0)),
            now: Moment(0),
        }
    }

    fn held(facts: TurnFacts) -> Stage {
        let mut stage = Stage::new(facts);
        stage.tell(Event::Held(HOLD));
        stage
    }

    fn running() -> Stage {
        let mut stage = Stage::held(facts());
        stage.tell(Event::Started);
        stage
    }

    fn at(&mut self, seconds: i64) -> &mut Stage {
        self.now = Moment(seconds * 1_000);
        self
    }

    fn tell(&mut self, event: Event) -> Vec<Effect> {
        self.turn.handle(event, self.now)
    }

    fn hear(&mut self, told: Told) -> Vec<Effect> {
        self.tell(Event::Agent(told))
    }

    fn fire(&mut self, timer: Timer) -> Vec<Effect> {
        self.tell(Event::TimerFired(timer))
    }

    fn stop(&mut self, why: Stop) -> Vec<Effect> {
        self.tell(Event::StopRequested(why))
    }

    fn end(&self) -> &End {
        self.turn.end().expect("an end")
    }

    /// Lets everything after the end happen; returns what was settled.
    fn close(&mut self) -> (Usd, bool) {
        let mut effects = self.tell(Event::Collected(Collected::default()));
        let (cost, estimated) = self.turn.cost();
        effects.extend(self.tell(Event::Settled));
        effects.extend(self.tell(Event::Delivered));
        assert!(effects.ends_with(&[Effect::Deliver, Effect::Finish]));
        assert!(self.turn.is_over());
        (cost, estimated)
    }
}

fn seconds(seconds: i64) -> Moment {
    Moment(seconds * 1_000)
}

fn init(mode: &str) -> Told {
    Told::Init(Init {
        session: SessionId("s".into()),
        model: "claude-haiku-4-5".into(),
        permission_mode: mode.into(),
        tools: vec![],
    })
}

fn says(text: &str) -> Told {
    Told::Text {
        text: text.into(),
        parent: None,
    }
}

fn starts(id: &str) -> Told {
    Told::ToolStarted(ToolCall {
        id: ToolId(id.into()),
        name: "Bash".into(),
        input: json!({"command": "sleep 60"}),
        parent: None,
    })
}

fn ends(id: &str) -> Told {
    Told::ToolEnded {
        id: ToolId(id.into()),
        failed: false,
        output: String::new(),
    }
}

fn outcome(text: &str, cost: u64) -> Outcome {
    Outcome {
        is_error: false,
        subtype: "success".into(),
        terminal_reason: Some("completed".into()),
        stop_reason: Some("end_turn".into()),
        text: text.into(),
        errors: vec![],
        api_status: None,
        total_cost: Usd(cost),
        turns: 1,
        duration: Duration::from_secs(1),
        session: None,
        denied: vec![],
        origin: None,
    }
}

fn result(text: &str, cost: u64) -> Told {
    Told::Result(outcome(text, cost))
}

fn error(text: &str, status: Option<u16>) -> Told {
    Told::Result(Outcome {
        is_error: true,
        api_status: status,
        ..outcome(text, 0)
    })
}

fn no_conversation() -> Told {
    Told::Result(Outcome {
        is_error: true,
        subtype: "error_during_execution".into(),
        errors: vec!["No conversation found with session ID: s".into()],
        ..outcome("", 0)
    })
}

// ---- The plain road

#[test]
fn a_turn_begins_with_its_hold() {
    assert_eq!(Stage::new(facts()).turn.begin(), [Effect::Hold]);
}

#[test]
fn a_held_turn_shows_itself_starts_and_sets_its_clocks() {
    let effects = Stage::new(facts()).tell(Event::Held(HOLD));
    assert_eq!(
        effects,
        [
            Effect::ShowLive,
            Effect::Start,
            schedule(Timer::WallClock, seconds(1_800)),
            schedule(Timer::Silence, seconds(600)),
            schedule(Timer::Tick, seconds(5)),
        ]
    );
}

#[test]
fn a_turn_that_is_rebuilt_keeps_its_wall_clock() {
    let mut stage = Stage::new(facts());
    let effects = stage.at(1_000).tell(Event::Held(HOLD));
    assert!(effects.contains(&schedule(Timer::WallClock, seconds(1_800))));
    assert!(effects.contains(&schedule(Timer::Tick, seconds(1_010))));
}

#[test]
fn a_refused_turn_says_so_and_costs_nothing() {
    let mut stage = Stage::new(facts());
    assert_eq!(
        stage.tell(Event::Refused(Refusal::Suspended)),
        [Effect::Deliver]
    );
    assert_eq!(stage.end(), &End::Refused(Refusal::Suspended));
    assert_eq!(stage.turn.cost(), (Usd::ZERO, false));
    assert_eq!(stage.tell(Event::Delivered), [Effect::Finish]);
}

#[test]
fn an_answer_closes_the_input_and_everything_follows_in_order() {
    let mut stage = Stage::running();
    stage.hear(init("default"));
    assert_eq!(
        stage.hear(says("Hello.")),
        [Effect::ShowLive, Effect::KeepSession]
    );
    assert_eq!(
        stage.at(3).hear(result("Hello.", 31_200)),
        [
            Effect::ShowLive,
            Effect::CloseInput,
            schedule(Timer::ResultGrace, seconds(8))
        ]
    );
    assert_eq!(
        stage.tell(Event::Ended(Some(0))),
        [Effect::ShowLive, Effect::Collect]
    );
    assert_eq!(
        stage.tell(Event::Collected(Collected::default())),
        [Effect::Settle {
            cost: Usd(31_200),
            estimated: true
        }]
    );
    assert_eq!(stage.tell(Event::Settled), [Effect::Deliver]);
    assert_eq!(stage.tell(Event::Delivered), [Effect::Finish]);
    assert_eq!(stage.end(), &End::Answered);
    assert_eq!(stage.turn.text(), "Hello.");
}

#[test]
fn the_last_of_several_results_counts_and_its_cost_is_not_added_up() {
    let mut stage = Stage::running();
    stage.hear(result("Started it.", 100_000));
    // The clocks may have fired meanwhile, so they are set anew.
    assert_eq!(
        stage.at(3).hear(init("default")),
        [
            schedule(Timer::WallClock, seconds(1_800)),
            schedule(Timer::Silence, seconds(603))
        ]
    );
    assert_eq!(stage.turn.state(), &State::Running);
    let effects = stage.at(4).hear(result("It has finished.", 250_000));
    assert!(effects.contains(&schedule(Timer::ResultGrace, seconds(9))));
    stage.tell(Event::Ended(Some(0)));
    assert_eq!(stage.turn.text(), "It has finished.");
    assert_eq!(stage.close(), (Usd(250_000), true));
}

#[test]
fn the_meter_beats_what_the_agent_reports_and_never_goes_back() {
    let mut stage = Stage::running();
    stage.tell(metered(500, false));
    stage.tell(metered(400, false));
    stage.hear(result("Done.", 31_200));
    stage.tell(Event::Ended(Some(0)));
    assert_eq!(stage.close(), (Usd(500), false));
    assert_eq!(stage.turn.reported(), Some(Usd(31_200)));
}

#[test]
fn what_the_meter_does_not_know_for_sure_is_an_estimate() {
    let mut stage = Stage::running();
    stage.hear(result("Done.", 31_200));
    stage.tell(Event::Ended(Some(0)));
    stage.tell(metered(31_200, true));
    assert_eq!(stage.close(), (Usd(31_200), true));
}

#[test]
fn an_agent_that_was_told_of_the_limit_and_ended_by_itself_was_stopped_by_the_limit() {
    let mut stage = Stage::running();
    let said = "API Error: 400 the limit of this turn is used up";
    let mut refused = outcome(said, 31_200);
    refused.is_error = true;
    stage.hear(Told::Result(refused));
    stage.tell(Event::Ended(Some(1)));
    stage.close();
    assert_eq!(stage.end(), &End::Stopped(Stop::Limit(HOLD)));
}

fn metered(cost: u64, estimated: bool) -> Event {
    let cost = Usd(cost);
    Event::Metered { cost, estimated }
}

fn used(answer: Option<&str>, tokens: Tokens) -> Told {
    Told::Used(Used {
        answer: answer.map(str::to_owned),
        parent: None,
        model: Some("claude-haiku-4-5".into()),
        tokens,
    })
}

#[test]
fn an_answer_is_counted_once_however_often_its_use_is_told() {
    let mut stage = Stage::running();
    let input = Tokens {
        input: 1_000,
        output: 1,
        ..Tokens::default()
    };
    let output = Tokens {
        output: 200,
        ..Tokens::default()
    };
    for told in [
        used(Some("a"), input),
        used(Some("a"), input),
        used(None, output),
        used(Some("b"), input),
    ] {
        assert_eq!(stage.hear(told), []);
    }
    let unpriced: Vec<(u64, u64)> = stage
        .turn
        .work()
        .unpriced()
        .map(|answer| (answer.tokens.input, answer.tokens.output))
        .collect();
    assert_eq!(unpriced, [(1_000, 200), (1_000, 1)]);
    // The result tells the cost of all that came before it; what comes after it is told by none.
    stage.hear(result("Done.", 5_000));
    assert_eq!(stage.turn.work().unpriced().count(), 0);
    stage.hear(used(Some("c"), input));
    stage.tell(Event::Priced(Usd(700)));
    stage.tell(Event::Ended(Some(1)));
    assert_eq!(stage.close(), (Usd(5_700), true));
}

#[test]
fn a_result_whose_total_leaves_out_what_was_used_tells_no_cost() {
    let mut stage = Stage::running();
    stage.hear(used(
        Some("a"),
        Tokens {
            input: 1_000,
            ..Tokens::default()
        },
    ));
    stage.hear(result("", 0));
    assert_eq!(stage.turn.work().unpriced().count(), 1);
    stage.tell(Event::Ended(Some(1)));
    assert_eq!(stage.close(), (HOLD, true));
}

#[test]
fn an_end_without_any_word_of_the_cost_costs_the_hold_once_the_model_answered() {
    let mut stage = Stage::running();
    stage.hear(says("Hello."));
    stage.tell(Event::Ended(Some(1)));
    assert_eq!(stage.close(), (HOLD, true));
    let mut silent = Stage::running();
    silent.tell(Event::Ended(Some(1)));
    assert_eq!(silent.close(), (Usd::ZERO, true));
}

#[test]
fn a_total_that_cannot_be_is_not_believed_and_admins_are_told() {
    let mut stage = Stage::running();
    stage.hear(result("Done.", u64::MAX));
    let effects = stage.tell(Event::Ended(Some(0)));
    assert!(matches!(effects[0], Effect::Alarm(_)), "{effects:?}");
    assert_eq!(stage.close(), (HOLD, true));
}

#[test]
fn the_stream_counts_as_the_start_when_the_news_of_it_is_lost() {
    let mut stage = Stage::held(facts());
    stage.hear(init("default"));
    assert_eq!(stage.turn.state(), &State::Running);
    assert_eq!(stage.tell(Event::Started), []);
}

// ---- Processes that do not go

#[test]
fn a_process_that_stays_after_its_result_is_killed_and_the_turn_is_a_success() {
    let mut stage = Stage::running();
    stage.hear(result("Done.", 1));
    assert_eq!(
        stage.at(2).fire(Timer::ResultGrace),
        [schedule(Timer::ResultGrace, seconds(5))]
    );
    assert_eq!(
        stage.at(5).fire(Timer::ResultGrace),
        [Effect::Kill, schedule(Timer::ResultGrace, seconds(35))]
    );
    assert_eq!(
        stage.at(6).tell(Event::Killed),
        [schedule(Timer::ResultGrace, seconds(8))]
    );
    assert_eq!(
        stage.at(8).fire(Timer::ResultGrace),
        [Effect::ShowLive, Effect::Collect]
    );
    assert_eq!(stage.end(), &End::Answered);
}

#[test]
fn a_kill_without_confirmation_ends_the_turn_and_tells_the_admins() {
    let mut stage = Stage::running();
    stage.stop(Stop::By(ADA));
    assert!(stage.at(5).fire(Timer::StopGrace).contains(&Effect::Kill));
    let effects = stage.at(35).fire(Timer::StopGrace);
    assert_eq!(
        effects,
        [
            Effect::Alarm("turn 42 could not be killed in time".into()),
            Effect::ShowLive,
            Effect::Collect
        ]
    );
    assert_eq!(stage.end(), &End::Stopped(Stop::By(ADA)));
}

#[test]
fn a_run_that_somebody_else_killed_ends_with_its_last_words() {
    let mut stage = Stage::running();
    stage.hear(says("I begin."));
    stage.tell(Event::Killed);
    stage.tell(Event::Ended(Some(137)));
    assert_eq!(stage.end(), &End::Failed(Failure::Killed));
    assert_eq!(stage.turn.text(), "I begin.");
    assert_eq!(stage.close(), (HOLD, true));
}

#[test]
fn a_stream_that_ends_without_result_delivers_the_last_text() {
    let mut stage = Stage::running();
    stage.hear(says("Here it is."));
    stage.tell(Event::Ended(Some(0)));
    assert_eq!(stage.end(), &End::Early { exit: Some(0) });
    assert_eq!(stage.turn.text(), "Here it is.");
}

// ---- Stop

#[test]
fn a_stop_before_the_gate_ends_the_turn_and_nothing_starts() {
    for prelude in [vec![], vec![Event::NoPlace]] {
        let mut stage = Stage::new(facts());
        for event in prelude {
            stage.tell(event);
        }
        assert_eq!(
            stage.stop(Stop::By(ADA)),
            [Effect::Settle {
                cost: Usd::ZERO,
                estimated: false
            }]
        );
        assert_eq!(stage.stop(Stop::By(ADA)), []);
        assert_eq!(stage.tell(Event::Held(HOLD)), []);
        assert_eq!(stage.end(), &End::Stopped(Stop::By(ADA)));
    }
}

#[test]
fn a_turn_without_a_place_is_shown_once() {
    let mut stage = Stage::new(facts());
    assert_eq!(stage.tell(Event::NoPlace), [Effect::ShowLive]);
    assert_eq!(stage.tell(Event::NoPlace), []);
    assert!(stage.tell(Event::Held(HOLD)).contains(&Effect::Start));
}

#[test]
fn a_stop_during_the_start_calls_it_off() {
    let mut stage = Stage::held(facts());
    assert_eq!(
        stage.stop(Stop::By(ADA)),
        [Effect::CallOff, Effect::ShowLive]
    );
    assert_eq!(stage.stop(Stop::By(ADA)), []);
    assert_eq!(
        stage.tell(Event::CalledOff),
        [Effect::Settle {
            cost: Usd::ZERO,
            estimated: false
        }]
    );
    assert_eq!(stage.end(), &End::Stopped(Stop::By(ADA)));
}

#[test]
fn what_fails_while_it_is_called_off_counts_as_stopped() {
    let mut stage = Stage::held(facts());
    stage.stop(Stop::By(ADA));
    stage.tell(Event::NotStarted(Trouble::Full));
    assert_eq!(stage.end(), &End::Stopped(Stop::By(ADA)));
}

#[test]
fn a_stop_that_came_too_late_for_the_start_is_applied_to_the_run() {
    let mut stage = Stage::held(facts());
    stage.stop(Stop::By(ADA));
    assert_eq!(
        stage.at(1).tell(Event::Started),
        [
            Effect::Interrupt,
            Effect::ShowLive,
            schedule(Timer::StopGrace, seconds(6))
        ]
    );
}

#[test]
fn a_stop_is_over_only_when_the_process_is_gone() {
    let mut stage = Stage::running();
    stage.hear(says("Half of"));
    stage.stop(Stop::By(ADA));
    assert_eq!(stage.stop(Stop::Silent), []);
    let aborted = Told::Result(Outcome {
        is_error: true,
        terminal_reason: Some("aborted_tools".into()),
        ..outcome("", 4_800)
    });
    assert_eq!(stage.hear(aborted), [Effect::ShowLive, Effect::CloseInput]);
    assert!(stage.turn.end().is_none());
    stage.tell(Event::Ended(Some(0)));
    assert_eq!(stage.end(), &End::Stopped(Stop::By(ADA)));
    assert_eq!(stage.turn.text(), "Half of");
    assert_eq!(stage.close(), (Usd(4_800), true));
}

#[test]
fn a_stop_after_the_result_only_hurries_the_process() {
    let mut stage = Stage::running();
    stage.hear(result("Done.", 1));
    assert_eq!(
        stage.at(1).stop(Stop::By(ADA)),
        [Effect::Kill, schedule(Timer::ResultGrace, seconds(31))]
    );
    assert_eq!(stage.stop(Stop::By(ADA)), []);
    stage.tell(Event::Ended(None));
    assert_eq!(stage.end(), &End::Answered);
}

#[test]
fn a_stop_after_the_end_changes_nothing() {
    let mut stage = Stage::running();
    stage.hear(result("Done.", 1));
    stage.tell(Event::Ended(Some(0)));
    assert_eq!(stage.stop(Stop::By(ADA)), []);
    assert_eq!(stage.end(), &End::Answered);
}

#[test]
fn another_permission_mode_is_killed_at_once() {
    let mut stage = Stage::running();
    let effects = stage.hear(init("bypassPermissions"));
    assert_eq!(effects[0], Effect::Kill);
    assert!(matches!(&effects[1], Effect::Alarm(text) if text.contains("permission mode")));
    stage.tell(Event::Ended(Some(137)));
    assert_eq!(stage.end(), &End::Stopped(Stop::WrongMode));
    assert!(matches!(
        stage.turn.state(),
        State::Closing {
            stage: Closing::Settling,
            ..
        }
    ));
}

#[test]
fn a_stream_that_shrank_charges_the_hold_whatever_state_it_is_in() {
    for prelude in [
        vec![],
        vec![Event::StopRequested(Stop::By(ADA))],
        vec![Event::Agent(result("Done.", 1))],
    ] {
        let mut stage = Stage::running();
        for event in prelude {
            stage.tell(event);
        }
        let effects = stage.tell(Event::Shrank);
        assert_eq!(effects[0], Effect::Kill);
        assert!(matches!(effects[1], Effect::Alarm(_)));
        assert_eq!(stage.tell(Event::Shrank), []);
        assert_eq!(
            stage.tell(Event::Ended(Some(0))),
            [Effect::Settle {
                cost: HOLD,
                estimated: true
            }]
        );
    }
}

// ---- Time

#[test]
fn the_wall_clock_stops_a_turn_and_an_early_one_waits() {
    let mut stage = Stage::running();
    assert_eq!(
        stage.at(100).fire(Timer::WallClock),
        [schedule(Timer::WallClock, seconds(1_800))]
    );
    let effects = stage.at(1_800).fire(Timer::WallClock);
    assert_eq!(effects[0], Effect::Interrupt);
    assert_eq!(stage.turn.stopping(), Some(Stop::TimeUp));
}

#[test]
fn silence_stops_a_turn_but_not_while_a_tool_is_open() {
    let mut stage = Stage::running();
    stage.at(100).hear(starts("a"));
    assert_eq!(
        stage.at(600).fire(Timer::Silence),
        [schedule(Timer::Silence, seconds(700))]
    );
    assert_eq!(
        stage.at(700).fire(Timer::Silence),
        [schedule(Timer::Silence, seconds(1_300))]
    );
    stage.at(750).hear(ends("a"));
    assert_eq!(
        stage.at(1_300).fire(Timer::Silence),
        [schedule(Timer::Silence, seconds(1_350))]
    );
    assert_eq!(stage.at(1_350).fire(Timer::Silence)[0], Effect::Interrupt);
    assert_eq!(stage.turn.stopping(), Some(Stop::Silent));
}

#[test]
fn the_live_clock_goes_slower_in_long_turns_and_stands_still_at_the_end() {
    let mut stage = Stage::running();
    let tick = |at| vec![Effect::ShowLive, schedule(Timer::Tick, seconds(at))];
    assert_eq!(stage.at(5).fire(Timer::Tick), tick(10));
    assert_eq!(stage.at(120).fire(Timer::Tick), tick(130));
    stage.tell(Event::Ended(Some(0)));
    assert_eq!(stage.fire(Timer::Tick), []);
}

#[test]
fn timers_of_another_state_change_nothing() {
    let mut stage = Stage::running();
    stage.at(10_000);
    for timer in [Timer::StopGrace, Timer::ResultGrace, Timer::AwayLimit] {
        assert_eq!(stage.fire(timer), []);
    }
    assert_eq!(stage.turn.state(), &State::Running);
    stage.hear(result("Done.", 1));
    for timer in [Timer::WallClock, Timer::Silence, Timer::StopGrace] {
        assert_eq!(stage.fire(timer), []);
    }
}

// ---- The sandbox

#[test]
fn a_run_that_could_not_start_is_free_and_the_admins_hear_of_it() {
    let mut stage = Stage::held(facts());
    let effects = stage.tell(Event::NotStarted(Trouble::AgentMissing));
    assert!(matches!(&effects[0], Effect::Alarm(text) if text.contains("agent.command")));
    assert_eq!(
        effects[1..],
        [Effect::Settle {
            cost: Usd::ZERO,
            estimated: false
        }]
    );
}

#[test]
fn a_file_that_cannot_be_brought_in_is_nothing_for_the_admins() {
    let mut stage = Stage::held(facts());
    let trouble = Trouble::Attachment {
        name: "a.csv".into(),
        why: "it is gone".into(),
    };
    assert_eq!(stage.tell(Event::NotStarted(trouble)).len(), 1);
}

#[test]
fn a_sandbox_that_is_away_is_waited_for_and_then_given_up() {
    let mut stage = Stage::running();
    assert_eq!(
        stage.at(10).tell(Event::Away),
        [Effect::ShowLive, schedule(Timer::AwayLimit, seconds(610))]
    );
    assert_eq!(stage.at(20).tell(Event::Away), []);
    assert_eq!(stage.at(600).fire(Timer::Silence).len(), 1);
    assert_eq!(stage.turn.state(), &State::Running);
    let effects = stage.at(610).fire(Timer::AwayLimit);
    assert_eq!(effects[0], Effect::Kill);
    assert!(matches!(effects[1], Effect::Alarm(_)));
    assert_eq!(stage.end(), &End::SandboxLost);
    assert_eq!(stage.turn.cost(), (Usd::ZERO, true));
}

#[test]
fn a_sandbox_that_comes_back_in_time_ends_the_waiting() {
    let mut stage = Stage::running();
    stage.at(10).tell(Event::Away);
    assert_eq!(stage.at(500).tell(Event::Back), [Effect::ShowLive]);
    assert_eq!(stage.tell(Event::Back), []);
    assert_eq!(stage.at(610).fire(Timer::AwayLimit), []);
    // The silence is counted anew: nothing could be heard meanwhile.
    assert_eq!(
        stage.at(700).fire(Timer::Silence),
        [schedule(Timer::Silence, seconds(1_100))]
    );
}

#[test]
fn a_second_absence_has_its_own_limit() {
    let mut stage = Stage::running();
    stage.at(10).tell(Event::Away);
    stage.at(500).tell(Event::Back);
    stage.at(550).tell(Event::Away);
    assert_eq!(
        stage.at(610).fire(Timer::AwayLimit),
        [schedule(Timer::AwayLimit, seconds(1_150))]
    );
}

#[test]
fn a_start_that_never_gets_through_is_given_up_without_a_charge() {
    let mut stage = Stage::held(facts());
    stage.tell(Event::Away);
    stage.at(600).fire(Timer::AwayLimit);
    assert_eq!(stage.end(), &End::NotStarted(Trouble::SandboxAway));
    assert_eq!(stage.turn.cost(), (Usd::ZERO, false));
}

#[test]
fn a_stop_while_the_sandbox_is_away_waits_for_it_and_is_bounded() {
    let mut stage = Stage::running();
    stage.tell(Event::Away);
    stage.at(1).stop(Stop::By(ADA));
    assert_eq!(
        stage.at(6).fire(Timer::StopGrace),
        [schedule(Timer::StopGrace, seconds(11))]
    );
    stage.at(600).fire(Timer::AwayLimit);
    assert_eq!(stage.end(), &End::Stopped(Stop::By(ADA)));
}

#[test]
fn a_result_that_was_seen_before_the_sandbox_went_away_is_the_answer() {
    let mut stage = Stage::running();
    stage.hear(result("Done.", 5));
    stage.tell(Event::Away);
    stage.at(600).fire(Timer::AwayLimit);
    assert_eq!(stage.end(), &End::Answered);
    assert!(matches!(
        stage.turn.state(),
        State::Closing {
            stage: Closing::Settling,
            ..
        }
    ));
    assert!(stage.turn.collected().failed.is_some());
}

#[test]
fn files_of_a_run_that_ended_are_looked_for_though_the_sandbox_is_away() {
    let mut stage = Stage::running();
    stage.tell(Event::Away);
    stage.at(1).stop(Stop::By(ADA));
    let effects = stage.at(2).tell(Event::Ended(Some(0)));
    assert_eq!(effects.last(), Some(&Effect::Collect));
    assert_eq!(stage.end(), &End::Stopped(Stop::By(ADA)));
}

// ---- Sessions

#[test]
fn a_session_that_cannot_be_resumed_is_replaced_once() {
    let mut stage = Stage::held(resuming());
    stage.hear(no_conversation());
    assert_eq!(
        stage.tell(Event::Ended(Some(1))),
        [
            Effect::RenewSession,
            Effect::Start,
            Effect::ShowLive,
            schedule(Timer::WallClock, seconds(1_800)),
            schedule(Timer::Silence, seconds(600)),
        ]
    );
    assert_eq!(stage.turn.attempt(), Attempt::Renewed);
    stage.hear(no_conversation());
    stage.tell(Event::Ended(Some(1)));
    assert_eq!(stage.end(), &End::Failed(Failure::SessionLost));
}

#[test]
fn a_fresh_session_that_is_not_found_is_not_replaced() {
    let mut stage = Stage::running();
    stage.hear(no_conversation());
    stage.tell(Event::Ended(Some(1)));
    assert_eq!(stage.end(), &End::Failed(Failure::SessionLost));
}

#[test]
fn a_session_that_exists_already_is_resumed_once() {
    let mut stage = Stage::running();
    let complaint = || Event::Complained("Error: Session ID s is already in use.".into());
    stage.tell(complaint());
    assert_eq!(
        stage.tell(Event::Ended(Some(1))),
        [
            Effect::ResumeSession,
            Effect::Start,
            Effect::ShowLive,
            schedule(Timer::WallClock, seconds(1_800)),
            schedule(Timer::Silence, seconds(600)),
        ]
    );
    assert_eq!(stage.turn.attempt(), Attempt::Resumed);
    stage.tell(Event::Started);
    stage.tell(complaint());
    stage.tell(Event::Ended(Some(1)));
    assert_eq!(stage.end(), &End::Failed(Failure::SessionTaken));
}

#[test]
fn a_turn_that_is_being_stopped_is_not_started_again() {
    let mut stage = Stage::held(resuming());
    stage.hear(no_conversation());
    stage.tell(Event::Shrank);
    stage.tell(Event::Ended(Some(1)));
    assert_eq!(stage.end(), &End::Stopped(Stop::Tampered));
}

#[test]
fn a_time_out_keeps_the_session() {
    let mut stage = Stage::held(resuming());
    stage.hear(says("Working."));
    stage.at(1_800).fire(Timer::WallClock);
    stage.tell(Event::Killed);
    let effects = stage.tell(Event::Ended(Some(137)));
    assert!(!effects.contains(&Effect::RenewSession));
    assert_eq!(stage.end(), &End::Stopped(Stop::TimeUp));
}

#[test]
fn the_session_is_kept_once_the_provider_was_asked() {
    let mut stage = Stage::running();
    assert_eq!(stage.hear(init("default")), []);
    assert!(
        !stage
            .hear(error("API Error", Some(500)))
            .contains(&Effect::KeepSession)
    );
    assert!(stage.hear(Told::Thinking).contains(&Effect::KeepSession));
    assert!(!stage.hear(says("Hi.")).contains(&Effect::KeepSession));
}

// ---- Failures

#[test]
fn a_success_that_failed_is_no_answer() {
    let mut stage = Stage::running();
    stage.hear(error("Invalid API key · Fix external API key", Some(401)));
    let effects = stage.tell(Event::Ended(Some(1)));
    assert!(matches!(&effects[0], Effect::Alarm(text) if text.contains("provider.api_key")));
    assert_eq!(stage.end(), &End::Failed(Failure::Key));
    assert_eq!(stage.turn.text(), "");
}

#[test]
fn a_missing_program_is_told_by_its_exit_code() {
    let mut stage = Stage::running();
    stage.tell(Event::Ended(Some(127)));
    assert_eq!(stage.end(), &End::NotStarted(Trouble::AgentMissing));
    assert_eq!(stage.turn.cost(), (Usd::ZERO, false));
}

#[test]
fn what_an_agent_complains_about_is_for_the_admins() {
    let mut stage = Stage::running();
    stage.tell(Event::Complained("cannot be used as root".into()));
    let effects = stage.tell(Event::Ended(Some(1)));
    assert!(matches!(&effects[0], Effect::Alarm(text) if text.contains("as root")));
}

// ---- What the agent asks, and steers

#[test]
fn whatever_needs_permission_is_denied_with_the_reason() {
    let mut stage = Stage::running();
    let mut ask = |tool: &str| {
        let asked = PermissionAsked {
            request_id: "r1".into(),
            tool: tool.into(),
            input: json!({}),
        };
        match stage.hear(Told::Permission(asked)).as_slice() {
            [Effect::Deny { request_id, reason }] if request_id == "r1" => reason.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert!(ask("Write").starts_with("Write is not allowed here"));
    assert_eq!(ask("AskUserQuestion"), NOBODY_TO_ASK);
}

#[test]
fn a_result_before_the_echo_of_a_steer_does_not_close_the_input() {
    let mut stage = Stage::running();
    let (id, line) = ("m9".to_owned(), "{}".to_owned());
    let steer = Event::Steered {
        id: id.clone(),
        line: line.clone(),
    };
    assert_eq!(
        stage.tell(steer),
        [Effect::Say {
            id: id.clone(),
            line
        }]
    );
    assert_eq!(
        stage.hear(result("One.", 1)),
        [Effect::ShowLive, Effect::KeepSession]
    );
    stage.hear(Told::Echo {
        id: Some(id),
        text: String::new(),
    });
    assert!(stage.hear(result("Two.", 2)).contains(&Effect::CloseInput));
    assert!(stage.turn.untaken().is_empty());
}

#[test]
fn a_steer_that_cannot_be_said_is_not_waited_for() {
    let mut stage = Stage::running();
    let steer = |id: &str| Event::Steered {
        id: id.into(),
        line: "{}".into(),
    };
    let echo = |id: &str| Told::Echo {
        id: Some(id.into()),
        text: String::new(),
    };
    stage.tell(steer("a"));
    assert_eq!(stage.tell(Event::NotSaid("a".into())), []);
    assert!(stage.turn.untaken().is_empty());
    stage.tell(steer("b"));
    stage.hear(result("One.", 1));
    stage.hear(echo("b"));
    stage.tell(steer("c"));
    // The agent works on the one before: it is not hurried.
    assert_eq!(stage.tell(Event::NotSaid("c".into())), []);
    stage.tell(steer("d"));
    stage.hear(result("Two.", 2));
    let effects = stage.tell(Event::NotSaid("d".into()));
    assert!(effects.contains(&Effect::CloseInput), "{effects:?}");
}

#[test]
fn a_second_run_does_not_wait_for_a_steer_that_the_first_was_told() {
    let mut stage = Stage::held(resuming());
    stage.tell(Event::Started);
    stage.tell(Event::Steered {
        id: "a".into(),
        line: "{}".into(),
    });
    stage.hear(no_conversation());
    stage.tell(Event::Ended(Some(1)));
    assert_eq!(stage.turn.attempt(), Attempt::Renewed);
    stage.tell(Event::Started);
    assert!(stage.hear(result("Done.", 1)).contains(&Effect::CloseInput));
}

#[test]
fn a_steer_that_comes_too_late_stays_untaken() {
    let mut stage = Stage::running();
    stage.hear(result("Done.", 1));
    let steer = |id: &str| Event::Steered {
        id: id.into(),
        line: "{}".into(),
    };
    assert_eq!(stage.tell(steer("a")), []);
    stage.tell(Event::Ended(Some(0)));
    assert_eq!(stage.tell(steer("b")), []);
    assert_eq!(stage.turn.untaken(), ["a", "b"]);
}

// ---- Any order

fn any_told() -> impl Strategy<Value = Told> {
    prop_oneof![
        Just(init("default")),
        Just(init("plan")),
        Just(says("Hello.")),
        Just(Told::TextDelta("He".into())),
        Just(Told::Thinking),
        Just(starts("a")),
        Just(ends("a")),
        Just(result("Done.", 10)),
        Just(error("API Error: Overloaded", None)),
        Just(no_conversation()),
        Just(Told::Unreadable),
        Just(Told::Echo {
            id: Some("m".into()),
            text: String::new()
        }),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let timers = prop_oneof![
        Just(Timer::Tick),
        Just(Timer::Silence),
        Just(Timer::WallClock),
        Just(Timer::StopGrace),
        Just(Timer::ResultGrace),
        Just(Timer::AwayLimit),
    ];
    let stops = prop_oneof![
        Just(Stop::By(ADA)),
        Just(Stop::Tampered),
        Just(Stop::ThreadGone)
    ];
    prop_oneof![
        1 => Just(Event::NoPlace),
        2 => Just(Event::Held(HOLD)),
        1 => Just(Event::Refused(Refusal::Empty)),
        2 => Just(Event::Started),
        1 => Just(Event::NotStarted(Trouble::Full)),
        1 => Just(Event::CalledOff),
        1 => Just(Event::Away),
        1 => Just(Event::Back),
        8 => any_told().prop_map(Event::Agent),
        1 => Just(Event::Steered { id: "m".into(), line: "{}".into() }),
        1 => Just(Event::NotSaid("m".into())),
        1 => (0..9u64).prop_map(|cost| metered(cost, cost > 4)),
        1 => (0..9u64).prop_map(|cost| Event::Priced(Usd(cost))),
        1 => Just(Event::Complained("already in use".into())),
        1 => Just(Event::Ended(Some(1))),
        1 => Just(Event::Shrank),
        2 => stops.prop_map(Event::StopRequested),
        4 => timers.prop_map(Event::TimerFired),
        1 => Just(Event::Killed),
        1 => Just(Event::Collected(Collected::default())),
        1 => Just(Event::Settled),
        1 => Just(Event::Delivered),
    ]
}

/// Whatever came before: this is how the world lets a turn end.
fn let_it_end(stage: &mut Stage, all: &mut Vec<Effect>) {
    let refused = matches!(stage.turn.state(), State::Admitting { .. });
    let last = [
        Event::Held(HOLD),
        Event::Started,
        Event::Ended(Some(1)),
        Event::Started,
        Event::Ended(Some(1)),
        Event::Collected(Collected::default()),
        Event::Settled,
        Event::Delivered,
    ];
    for event in last {
        all.extend(stage.tell(event));
    }
    assert!(stage.turn.is_over(), "was refused: {refused}");
}

proptest! {
    #[test]
    fn any_order_of_news_ends_once_and_settles_once(
        resumes in any::<bool>(),
        news in prop::collection::vec((any_event(), 0..400i64), 0..60),
    ) {
        let mut stage = Stage::new(TurnFacts { resumes, ..facts() });
        let mut all = stage.turn.begin();
        let mut clock = 0;
        for (event, later) in news {
            clock += later;
            let now_over = stage.turn.is_over();
            let effects = stage.at(clock).tell(event);
            prop_assert!(!now_over || effects.is_empty());
            all.extend(effects);
        }
        let_it_end(&mut stage, &mut all);
        let count = |wanted: fn(&Effect) -> bool| all.iter().filter(|effect| wanted(effect)).count();
        let held = !matches!(stage.end(), End::Refused(_));
        prop_assert_eq!(count(|e| matches!(e, Effect::Settle { .. })), usize::from(held));
        prop_assert_eq!(count(|e| *e == Effect::Finish), 1);
        prop_assert_eq!(count(|e| *e == Effect::Deliver), 1);
        prop_assert!(count(|e| *e == Effect::Collect) <= 1);
        prop_assert!(count(|e| *e == Effect::Start) <= 2);
        let deliver = all.iter().position(|e| *e == Effect::Deliver).unwrap();
        prop_assert_eq!(&all[deliver + 1..], &[Effect::Finish]);
    }

    #[test]
    fn timers_alone_end_every_run_within_bounded_time(
        news in prop::collection::vec(any_told().prop_filter("keeps it waiting", |told| *told != starts("a")), 0..20),
    ) {
        let mut stage = Stage::running();
        for told in news {
            stage.hear(told);
        }
        for round in 1..60 {
            stage.at(round * 60);
            for timer in [Timer::Silence, Timer::WallClock, Timer::StopGrace, Timer::ResultGrace] {
                stage.fire(timer);
            }
        }
        prop_assert!(stage.turn.end().is_some());
    }
}
