//! The driver over in-memory ports, under a clock that the test moves: what is promised in seconds is looked at in seconds.

use std::time::Duration;

use crate::domain::grant::{Level, Subject};
use crate::domain::guest::Guest;
use crate::domain::ids::{MemberId, MessageId, RoleId, ThreadId, TurnId};
use crate::domain::money::Usd;
use crate::domain::request::Quote;
use crate::domain::rules::{Limits, Rules};
use crate::domain::samples::{ADA, grant, rules, slug};
use crate::domain::time::Moment;
use crate::domain::turn_record::Stage;

use super::fakes::{Lodge, Said};
use super::inbound::{Inbound, InboundStop};
use super::ports::SurfaceError;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"claude-haiku-4-5","permissionMode":"default","tools":["Bash"]}"#;
const BASH: &str = r#"{"type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"python plot.py"}}]},"parent_tool_use_id":null}"#;
const BASH_DONE: &str = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"fine","is_error":false}]},"parent_tool_use_id":null}"#;
const WORDS: &str = r#"{"type":"assistant","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"Here it is."}]},"parent_tool_use_id":null}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Here it is.","total_cost_usd":0.25,"num_turns":2,"duration_ms":1000,"stop_reason":"end_turn","session_id":"s"}"#;

/// Returns the texts of all posts and edits, oldest first.
fn texts(said: &[Said]) -> Vec<String> {
    said.iter()
        .filter_map(|said| match said {
            Said::Post { post, .. } | Said::Edit { post, .. } => Some(post.text.clone()),
            Said::Thread { .. } | Said::Delete { .. } => None,
        })
        .collect()
}

fn answers(said: &[Said]) -> usize {
    said.iter()
        .filter(|said| matches!(said, Said::Post { post, .. } if post.text.contains("Here it is.")))
        .count()
}

fn has_receipt(said: &[Said]) -> bool {
    texts(said)
        .last()
        .is_some_and(|text| text.starts_with("-# "))
}

/// Ada asks, and her turn's run exists.
async fn started(lodge: &mut Lodge) -> TurnId {
    let turn = lodge.asks("plot it").await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 1).await;
    turn
}

/// Ada asks, and people see the agent at work.
async fn at_work(lodge: &mut Lodge) -> TurnId {
    let turn = started(lodge).await;
    lodge.sandbox.emits(&[INIT, BASH]);
    lodge
        .surface
        .until(|said| {
            texts(said)
                .iter()
                .any(|text| text.contains("python plot.py"))
        })
        .await;
    turn
}

async fn done(lodge: &Lodge, turn: TurnId) {
    for _ in 0..100_000 {
        if lodge
            .turn(turn)
            .is_some_and(|record| record.stage == Stage::Done)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!(
        "the turn is never done: {:#?} {:#?}",
        lodge.turn(turn),
        lodge.surface.said()
    );
}

async fn answered(lodge: &Lodge) {
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    lodge
        .surface
        .until(|said| answers(said) == 1 && has_receipt(said))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_is_shown_at_once_and_its_answer_books_what_it_cost() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge
        .surface
        .until(|said| texts(said).iter().any(|text| text.contains("Starting")))
        .await;
    lodge.sandbox.emits(&[INIT, BASH]);
    lodge
        .surface
        .until(|said| {
            texts(said)
                .iter()
                .any(|text| text.contains("python plot.py"))
        })
        .await;
    lodge.sandbox.emits(&[BASH_DONE]);
    answered(&lodge).await;
    done(&lodge, turn).await;
    let entry = lodge.house.store.entry(turn).unwrap().unwrap();
    assert_eq!(entry.cost.0, 250_000);
    assert_eq!(lodge.house.store.holds().unwrap(), Vec::new());
}

#[tokio::test(start_paused = true)]
async fn the_receipt_comes_within_ten_seconds_after_the_end() {
    let mut lodge = Lodge::open().await;
    started(&mut lodge).await;
    lodge.sandbox.emits(&[INIT]);
    let ended = tokio::time::Instant::now();
    answered(&lodge).await;
    assert!(
        ended.elapsed() < Duration::from_secs(10),
        "{:?}",
        ended.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_of_the_live_message_follows_the_answer_but_the_receipt() {
    let mut lodge = Lodge::open().await;
    started(&mut lodge).await;
    for _ in 0..30 {
        lodge.sandbox.emits(&[BASH, BASH_DONE]);
    }
    answered(&lodge).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let said = texts(&lodge.surface.said());
    let answer = said
        .iter()
        .position(|text| text.contains("Here it is.") && text.starts_with("<@"))
        .unwrap();
    assert_eq!(said.len(), answer + 2, "{said:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_same_message_told_twice_runs_once() {
    let mut lodge = Lodge::open().await;
    let message = lodge.message(ADA, "plot it", None);
    lodge.desk.inbound(Inbound::Message(message.clone())).await;
    lodge.desk.inbound(Inbound::Message(message.clone())).await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 1).await;
    answered(&lodge).await;
    lodge.desk.inbound(Inbound::Message(message)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lodge.sandbox.starts(), 1);
    assert_eq!(answers(&lodge.surface.said()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_older_than_the_limit_is_acknowledged_and_one_of_another_day_ignored() {
    let mut lodge = Lodge::open().await;
    let late = lodge.message(ADA, "plot it", None);
    tokio::time::advance(Duration::from_secs(2 * 60 * 60)).await;
    lodge.desk.inbound(Inbound::Message(late)).await;
    let said = lodge.surface.until(|said| !said.is_empty()).await;
    assert!(texts(&said)[0].contains("I was away"), "{said:?}");
    let stale = lodge.message(ADA, "plot it", None);
    tokio::time::advance(Duration::from_secs(25 * 60 * 60)).await;
    lodge.desk.inbound(Inbound::Message(stale)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lodge.surface.said().len(), 1);
    assert_eq!(lodge.sandbox.starts(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_is_stopped_after_the_limit_and_killed_after_its_grace() {
    let limits = Limits {
        silence: Duration::from_secs(60),
        ..rules().limits
    };
    let mut lodge = Lodge::with(Rules { limits, ..rules() }).await;
    let turn = started(&mut lodge).await;
    lodge.sandbox.emits(&[INIT]);
    let began = tokio::time::Instant::now();
    lodge.sandbox.until(|sandbox| sandbox.kills() > 0).await;
    let waited = began.elapsed();
    assert!(
        waited >= Duration::from_secs(60) && waited <= Duration::from_secs(75),
        "{waited:?}"
    );
    assert!(lodge.sandbox.said().contains(&"m-interrupt".to_owned()));
    done(&lodge, turn).await;
}

#[tokio::test(start_paused = true)]
async fn a_working_tool_may_be_silent_until_the_turns_own_limit() {
    let limits = Limits {
        silence: Duration::from_secs(60),
        turn_time: Duration::from_secs(600),
        ..rules().limits
    };
    let mut lodge = Lodge::with(Rules { limits, ..rules() }).await;
    started(&mut lodge).await;
    lodge.sandbox.emits(&[INIT, BASH]);
    let began = tokio::time::Instant::now();
    lodge.sandbox.until(|sandbox| sandbox.kills() > 0).await;
    assert!(
        began.elapsed() >= Duration::from_secs(590),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_by_its_author_ends_the_turn_and_the_next_request_runs() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    let stop = InboundStop {
        id: crate::domain::ids::InteractionId(1),
        thread: ThreadId(turn.0),
        by: crate::domain::samples::person(ADA, &[]),
    };
    let reply = lodge.desk.stop(stop).await;
    assert!(reply.text.contains("Stopping"), "{reply:?}");
    done(&lodge, turn).await;
    let next = lodge.says(ADA, turn, "and again").await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    answered(&lodge).await;
    done(&lodge, next).await;
}

#[tokio::test(start_paused = true)]
async fn a_strangers_words_reach_nobody_and_he_is_told_once() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    for number in 0..3 {
        lodge
            .says(MemberId(77), turn, &format!("obey me {number}"))
            .await;
    }
    answered(&lodge).await;
    done(&lodge, turn).await;
    let refusals = texts(&lodge.surface.said())
        .iter()
        .filter(|text| text.contains("no access"))
        .count();
    assert_eq!(refusals, 1);
    assert_eq!(lodge.sandbox.said(), ["end"]);
    assert!(lodge.house.store.unfinished().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_authors_next_words_join_the_running_turn_once_the_agent_echoes_them() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    let steer = lodge.says(ADA, turn, "in blue, please").await;
    let (id, told) = (format!("{steer}.s"), format!("m-{steer}_2es"));
    lodge
        .sandbox
        .until(|sandbox| sandbox.said().contains(&told))
        .await;
    assert_eq!(lodge.turn(steer).unwrap().stage, Stage::Waiting);
    let echo = format!(
        r#"{{"type":"user","uuid":"{id}","isReplay":true,"message":{{"role":"user","content":"in blue"}}}}"#
    );
    lodge.sandbox.emits(&[&echo, BASH_DONE]);
    answered(&lodge).await;
    done(&lodge, turn).await;
    assert_eq!(lodge.turn(steer).unwrap().stage, Stage::Done);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lodge.sandbox.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn words_that_the_agent_did_not_take_run_as_the_next_turn() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    let steer = lodge.says(ADA, turn, "in blue, please").await;
    lodge
        .sandbox
        .until(|sandbox| !sandbox.said().is_empty())
        .await;
    lodge.sandbox.ends(1);
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    answered(&lodge).await;
    done(&lodge, steer).await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_house_leaves_the_run_alone_and_the_next_one_goes_on_in_the_same_message() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    let lodge = lodge.reopen().await;
    assert!(
        texts(&lodge.surface.said())
            .last()
            .is_some_and(|text| text.contains("restarting"))
    );
    lodge.sandbox.emits(&[BASH_DONE]);
    answered(&lodge).await;
    done(&lodge, turn).await;
    let live = lodge
        .surface
        .said()
        .iter()
        .filter(|said| matches!(said, Said::Post { post, .. } if post.silent))
        .count();
    assert_eq!(live, 1, "one live message");
    assert_eq!(lodge.sandbox.starts(), 1);
    assert_eq!(
        lodge.house.store.entry(turn).unwrap().unwrap().cost.0,
        250_000
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ended_while_the_house_was_closed_is_not_taken_for_one_that_took_too_long() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.sandbox.emits(&[INIT]);
    lodge
        .surface
        .until(|said| texts(said).iter().any(|text| text.contains("Starting")))
        .await;
    lodge.house.cancel.cancel();
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    tokio::time::sleep(Duration::from_secs(2 * 60 * 60)).await;
    let lodge = lodge.reopen().await;
    lodge
        .surface
        .until(|said| answers(said) == 1 && has_receipt(said))
        .await;
    done(&lodge, turn).await;
    let receipt = texts(&lodge.surface.said()).pop().unwrap();
    assert!(receipt.starts_with("-# ✓"), "{receipt}");
}

#[tokio::test(start_paused = true)]
async fn a_part_whose_arrival_nobody_saw_is_found_and_not_sent_again() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    answered(&lodge).await;
    done(&lodge, turn).await;
    let mut record = lodge.turn(turn).unwrap();
    // As if the process had ended between sending the part and noting it, minutes ago.
    record.stage = Stage::Settled {
        cost: crate::domain::money::Usd(250_000),
        estimated: true,
    };
    record.parts[0].sent = crate::domain::turn_record::Sent::Trying;
    lodge.house.store.put_turn(&record).unwrap();
    let lodge = lodge.reopen().await;
    done(&lodge, turn).await;
    done(&lodge, turn).await;
    assert_eq!(answers(&lodge.surface.said()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_comes_back_finds_the_turn_where_it_was() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    lodge.sandbox.is_away(true);
    lodge
        .surface
        .until(|said| {
            texts(said)
                .iter()
                .any(|text| text.to_lowercase().contains("sandbox"))
        })
        .await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    lodge.sandbox.is_away(false);
    lodge.sandbox.emits(&[BASH_DONE]);
    answered(&lodge).await;
    done(&lodge, turn).await;
    assert_eq!(lodge.sandbox.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_stays_away_ends_the_waiting_without_a_charge() {
    let mut lodge = Lodge::open().await;
    lodge.sandbox.is_away(true);
    let turn = lodge.asks("plot it").await;
    let said = lodge.surface.until(has_receipt).await;
    assert!(
        texts(&said)
            .iter()
            .any(|text| text.contains("The sandbox is unavailable")),
        "{said:?}"
    );
    done(&lodge, turn).await;
    assert_eq!(lodge.house.store.entry(turn).unwrap(), None);
    assert!(lodge.turn(turn).unwrap().retry);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_becomes_shorter_ends_the_turn_and_charges_the_hold() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    lodge.sandbox.shrinks();
    done(&lodge, turn).await;
    let entry = lodge.house.store.entry(turn).unwrap().unwrap();
    assert_eq!(entry.cost, crate::domain::money::Usd(1_000_000));
    assert!(entry.estimated);
    assert_eq!(lodge.sandbox.kills(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_discord_and_arrives_once() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.surface.until(|said| !texts(said).is_empty()).await;
    for _ in 0..8 {
        lodge
            .surface
            .fails("post", SurfaceError::Away("503".to_owned()));
    }
    answered(&lodge).await;
    done(&lodge, turn).await;
    assert_eq!(answers(&lodge.surface.said()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_locked_thread_leaves_a_word_in_the_channel_above() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.surface.until(|said| !texts(said).is_empty()).await;
    lodge.surface.fails("post", SurfaceError::Locked);
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    let said = lodge
        .surface
        .until(|said| {
            texts(said)
                .iter()
                .any(|text| text.contains("cannot be written"))
        })
        .await;
    assert!(
        said.iter().any(|said| matches!(
            said,
            Said::Post { channel, post, .. } if channel.0 == 600 && post.text.contains("cannot be written")
        )),
        "{said:#?}"
    );
    done(&lodge, turn).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_thread_stops_its_turn_and_closes_the_chat() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    lodge
        .desk
        .inbound(Inbound::Gone {
            channel: crate::domain::ids::ChannelId(turn.0),
        })
        .await;
    lodge.sandbox.until(|sandbox| sandbox.kills() > 0).await;
    done(&lodge, turn).await;
    assert!(
        lodge.house.store.entry(turn).unwrap().is_some(),
        "what it had cost is booked"
    );
    assert!(
        lodge
            .house
            .store
            .chat(ThreadId(turn.0))
            .unwrap()
            .unwrap()
            .closed
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_that_is_deleted_never_runs() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    // Not steered: the agent has not begun to work.
    let waiting = lodge.says(ADA, turn, "later").await;
    let channel = crate::domain::ids::ChannelId(turn.0);
    lodge
        .desk
        .inbound(Inbound::Deleted {
            messages: vec![MessageId(waiting.0)],
            channel,
        })
        .await;
    answered(&lodge).await;
    done(&lodge, turn).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lodge.turn(waiting).unwrap().stage, Stage::Done);
    assert_eq!(lodge.sandbox.starts(), 1);
}

/// Waits until the turn is over, and returns what people see last.
async fn stopped(lodge: &Lodge, turn: TurnId) -> String {
    done(lodge, turn).await;
    texts(&lodge.surface.said()).pop().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_role_that_is_lost_while_a_turn_runs_ends_it_at_the_next_look() {
    const CREW: RoleId = RoleId(70);
    let mut lodge = Lodge::open().await;
    let store = &lodge.house.store;
    store.revoke(Subject::Member(ADA), &slug("site")).unwrap();
    let by_role = grant(Subject::Role(CREW), "site", Level::Chat, None);
    store.give(&by_role).unwrap();
    lodge.surface.gives_roles(ADA, Some(vec![CREW]));
    let mut message = lodge.message(ADA, "plot it", None);
    message.author.roles = vec![CREW];
    let turn = TurnId(message.id.0);
    lodge.desk.inbound(Inbound::Message(message)).await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 1).await;
    lodge.sandbox.emits(&[INIT, BASH]);
    let watching = tokio::spawn(lodge.desk.clone().watch_roles());
    // Looked at twice, and found to be as it was.
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert_eq!(lodge.turn(turn).unwrap().stage, Stage::Started);
    lodge.surface.gives_roles(ADA, Some(vec![]));
    let lost = tokio::time::Instant::now();
    lodge
        .sandbox
        .until(|sandbox| sandbox.said().iter().any(|id| id == "m-interrupt"))
        .await;
    assert!(
        lost.elapsed() <= Duration::from_secs(60),
        "{:?}",
        lost.elapsed()
    );
    lodge.sandbox.ends(0);
    let receipt = stopped(&lodge, turn).await;
    assert!(receipt.contains("access has ended"), "{receipt}");
    watching.abort();
}

/// Lets the clock go to a moment.
async fn passes_until(lodge: &Lodge, moment: &str) {
    let moment: jiff::Timestamp = moment.parse().unwrap();
    let moment = Moment(moment.as_millisecond());
    tokio::time::sleep(moment.since(lodge.house.now())).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_over_the_months_end_is_paid_by_the_month_of_its_start_in_a_zone_with_summer_time() {
    // Midnight of the first of April is at 22:00 in UTC, and not at 23:00 as it was in winter.
    let mut lodge = Lodge::with(Rules {
        zone: jiff::tz::TimeZone::get("Europe/Berlin").unwrap(),
        ..rules()
    })
    .await;
    passes_until(&lodge, "2027-03-31T21:59:00Z").await;
    let store = lodge.house.store.clone();
    let guest = Guest {
        budget: Some(Usd(200_000)),
        ..store.guest(ADA).unwrap()
    };
    store.put_guest(&guest).unwrap();
    let turn = at_work(&mut lodge).await;
    passes_until(&lodge, "2027-03-31T22:01:00Z").await;
    // In April she has her whole budget, although March's is held and will be overdrawn.
    let next = lodge.says(ADA, turn, "and now April").await;
    assert_eq!(lodge.turn(next).unwrap().stage, Stage::Waiting);
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    done(&lodge, turn).await;
    let month = |turn: TurnId| lodge.turn(turn).unwrap().month.unwrap().to_string();
    assert_eq!(month(turn), "2027-03");
    let entry = store.entry(turn).unwrap().unwrap();
    assert_eq!(
        (entry.month.to_string(), entry.cost),
        ("2027-03".into(), Usd(250_000))
    );
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    assert_eq!(month(next), "2027-04");
    let hold = store.held(next).unwrap().unwrap();
    assert_eq!(
        (hold.month.to_string(), hold.amount),
        ("2027-04".into(), Usd(200_000))
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waited_over_the_months_end_is_paid_by_the_new_month() {
    let mut lodge = Lodge::open().await;
    passes_until(&lodge, "2027-01-31T23:58:00Z").await;
    let first = at_work(&mut lodge).await;
    let second = lodge.asks("another thread").await;
    passes_until(&lodge, "2027-02-01T00:01:00Z").await;
    assert_eq!(lodge.turn(second).unwrap().month, None);
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    let month = |turn: TurnId| lodge.turn(turn).unwrap().month.unwrap().to_string();
    assert_eq!(
        (month(first), month(second)),
        ("2027-01".into(), "2027-02".into())
    );
}

#[tokio::test(start_paused = true)]
async fn others_words_never_join_a_running_turn() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    let mut message = lodge.message(ADA, "do as he says", Some(ThreadId(turn.0)));
    message.addressed = false;
    message.quotes = vec![Quote {
        author: Some("ben".to_owned()),
        by: Some(MemberId(3)),
        text: "push it".to_owned(),
    }];
    let quoting = TurnId(message.id.0);
    lodge.desk.inbound(Inbound::Message(message)).await;
    lodge.sandbox.emits(&[BASH_DONE]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(
        !lodge
            .sandbox
            .said()
            .iter()
            .any(|line| line.contains("push it"))
    );
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    let chat = lodge.house.store.chat(ThreadId(turn.0)).unwrap().unwrap();
    assert!(
        chat.speakers.iter().any(|one| one.member == MemberId(3)),
        "{chat:?}"
    );
    assert_eq!(lodge.turn(quoting).unwrap().stage, Stage::Started);
}

/// Lets Ada's turn end, then Ben ask in her thread.
async fn ben_asks_in_adas_chat(lodge: &mut Lodge) -> TurnId {
    const BEN: MemberId = MemberId(3);
    let store = lodge.house.store.clone();
    let guest = Guest {
        budget: Some(Usd(5_000_000)),
        ..Guest::new(BEN)
    };
    store.put_guest(&guest).unwrap();
    let held = grant(Subject::Member(BEN), "site", Level::Chat, None);
    store.give(&held).unwrap();
    let first = started(lodge).await;
    // In her own account she needs no confinement where it is switched off.
    assert!(!lodge.sandbox.settings().contains("\"sandbox\""));
    lodge.sandbox.emits(&[INIT]);
    answered(lodge).await;
    done(lodge, first).await;
    lodge.says(BEN, first, "and now I").await
}

#[tokio::test(start_paused = true)]
async fn others_run_confined_in_a_guests_own_account() {
    let mut lodge = Lodge::by_guest().await;
    let turn = ben_asks_in_adas_chat(&mut lodge).await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    let settings = lodge.sandbox.settings();
    assert!(
        settings.contains("\"failIfUnavailable\": true"),
        "{settings}"
    );
    let account = |turn: TurnId| lodge.turn(turn).unwrap().thread;
    let chat = lodge.house.store.chat(account(turn)).unwrap().unwrap();
    let hers = lodge.house.store.known_account("guest/2").unwrap();
    assert_eq!(Some(chat.account), hers);
}

#[tokio::test(start_paused = true)]
async fn others_do_not_run_in_a_guests_own_account_without_confinement() {
    let mut lodge = Lodge::by_guest().await;
    lodge.sandbox.confines_nothing();
    let turn = ben_asks_in_adas_chat(&mut lodge).await;
    done(&lodge, turn).await;
    assert_eq!(lodge.sandbox.starts(), 1);
    let told = texts(&lodge.surface.said());
    assert!(
        told.iter().any(|text| text.contains("cannot be confined")),
        "{told:#?}"
    );
    let booked = lodge.house.store.entry(turn).unwrap();
    assert!(booked.is_none_or(|entry| entry.cost == Usd::ZERO));
}
