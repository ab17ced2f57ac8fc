//! The driver over in-memory ports, under a clock that the test moves: what is promised in seconds is looked at in seconds.

use std::time::Duration;

use crate::domain::chat::Listen;
use crate::domain::grant::{Level, Subject};
use crate::domain::guest::Guest;
use crate::domain::ids::{
    AttachmentId, ChannelId, GuildId, InteractionId, MemberId, MessageId, RoleId, ThreadId, TurnId,
};
use crate::domain::money::Usd;
use crate::domain::request::{Attachment, Quote, Request};
use crate::domain::rules::{Limits, Rules};
use crate::domain::samples::{ADA, GUILD, grant, person, rules, slug, turn as turn_sample};
use crate::domain::time::Moment;
use crate::domain::turn_record::Stage;

use super::fakes::{DATA, Lodge, Said};
use super::inbound::{ChatWant, Inbound, InboundAsk, InboundChat, InboundPress, InboundStop};
use super::ports::{Button, SurfaceError};
use super::which_project;

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
    let above = |said: &Said| matches!(said, Said::Post { channel, post, .. } if *channel == DATA && post.text.contains("cannot be written"));
    lodge.surface.until(|said| said.iter().any(above)).await;
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

#[tokio::test(start_paused = true)]
async fn a_thread_whose_message_was_deleted_goes_on_without_that_request() {
    let mut lodge = Lodge::open().await;
    // An earlier process had opened the thread and died; then the message on which it hangs was deleted.
    lodge
        .surface
        .fails("open_thread", SurfaceError::MessageGone);
    let withdrawn = lodge.asks("plot it").await;
    done(&lodge, withdrawn).await;
    assert_eq!(lodge.sandbox.starts(), 0);
    let turn = lodge.says(ADA, withdrawn, "rather sum it up").await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 1).await;
    answered(&lodge).await;
    done(&lodge, turn).await;
    assert_eq!(answers(&lodge.surface.said()), 1);
}

/// Ada changes how the chat works that this turn opened, and is told that it is so.
async fn changes(lodge: &mut Lodge, turn: TurnId, want: ChatWant) {
    let thread = ThreadId(turn.0);
    let call = InboundChat {
        id: InteractionId(turn.0 + 1),
        place: lodge.message(ADA, "", Some(thread)).place,
        by: crate::domain::samples::person(ADA, &[]),
        want: want.clone(),
    };
    let before = lodge.house.store.chat(thread).unwrap();
    let reply = lodge.desk.chat_command(call).await;
    let after = lodge.house.store.chat(thread).unwrap();
    assert_ne!(before, after, "{want:?}: {reply:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_changed_while_a_thread_waits_for_discord_stays_changed() {
    let mut lodge = Lodge::open().await;
    for _ in 0..8 {
        lodge
            .surface
            .fails("open_thread", SurfaceError::Away("503".to_owned()));
    }
    let turn = lodge.asks("plot it").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    changes(&mut lodge, turn, ChatWant::New).await;
    changes(&mut lodge, turn, ChatWant::Listen(Listen::Mentions)).await;
    let changed = lodge.house.store.chat(ThreadId(turn.0)).unwrap().unwrap();
    lodge.sandbox.until(|sandbox| sandbox.starts() == 1).await;
    let chat = lodge.house.store.chat(ThreadId(turn.0)).unwrap().unwrap();
    assert_eq!(chat.opening, None);
    assert_eq!(chat.listen, Listen::Mentions);
    assert_eq!(chat.session.id, changed.session.id);
    assert_eq!(lodge.turn(turn).unwrap().session, Some(changed.session.id));
}

#[tokio::test(start_paused = true)]
async fn what_is_changed_while_a_turn_waits_for_a_place_counts_for_it() {
    let mut lodge = Lodge::open().await;
    let first = started(&mut lodge).await;
    let second = lodge.asks("another one").await;
    let opened = |said: &[Said]| {
        let threads = said.iter().filter(|it| matches!(it, Said::Thread { .. }));
        threads.count() == 2
    };
    lodge.surface.until(opened).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    changes(&mut lodge, second, ChatWant::New).await;
    let changed = lodge.house.store.chat(ThreadId(second.0)).unwrap().unwrap();
    answered(&lodge).await;
    done(&lodge, first).await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    let chat = lodge.house.store.chat(ThreadId(second.0)).unwrap().unwrap();
    assert_eq!(chat.session.id, changed.session.id);
    assert_eq!(
        lodge.turn(second).unwrap().session,
        Some(changed.session.id)
    );
    assert_eq!(chat.speakers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_chat_whose_task_panicked_goes_on_by_itself() {
    let mut lodge = Lodge::open().await;
    lodge.surface.breaks("open_thread");
    let turn = started(&mut lodge).await;
    lodge
        .surface
        .until(|said| texts(said).iter().any(|text| text.contains("Starting")))
        .await;
    answered(&lodge).await;
    done(&lodge, turn).await;
    let next = lodge.says(ADA, turn, "and again").await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    lodge.sandbox.ends(0);
    done(&lodge, next).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_delivery_panicked_is_delivered_all_the_same() {
    for verb in ["post", "edit"] {
        let mut lodge = Lodge::open().await;
        let turn = started(&mut lodge).await;
        lodge
            .surface
            .until(|said| texts(said).iter().any(|text| text.contains("Starting")))
            .await;
        lodge.surface.breaks(verb);
        answered(&lodge).await;
        done(&lodge, turn).await;
        assert_eq!(lodge.sandbox.starts(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_chat_whose_task_failed_is_looked_at_again_until_it_works() {
    let lodge = Lodge::open().await;
    let turn = crate::domain::samples::turn(7, ThreadId(9), Stage::Waiting);
    lodge.house.store.put_turn(&turn).unwrap();
    lodge
        .house
        .hub
        .tell(&lodge.house, ThreadId(9), super::hub::Letter::Look);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let chat = crate::domain::samples::chat(ThreadId(9));
    lodge.house.store.put_chat(&chat).unwrap();
    lodge.sandbox.until(|sandbox| sandbox.starts() == 1).await;
    answered(&lodge).await;
    done(&lodge, turn.id).await;
}

#[tokio::test(start_paused = true)]
async fn an_arrival_that_panics_does_not_make_the_desk_deaf() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.surface.breaks("react");
    lodge.says(ADA, turn, "and this").await;
    let next = lodge.says(ADA, turn, "and that").await;
    assert!(lodge.turn(next).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_exists_already_is_resumed_in_a_second_run() {
    const TAKEN: &str = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["Session ID s is already in use."],"total_cost_usd":0,"num_turns":0,"duration_ms":1,"stop_reason":null,"session_id":"s"}"#;
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.sandbox.emits(&[TAKEN]);
    lodge.sandbox.ends(1);
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    answered(&lodge).await;
    done(&lodge, turn).await;
    let record = lodge.turn(turn).unwrap();
    let chat = lodge.house.store.chat(ThreadId(turn.0)).unwrap().unwrap();
    assert_eq!((record.attempt, record.resumes), (1, true));
    assert_eq!(record.session, Some(chat.session.id));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_given_up_is_killed_when_the_sandbox_is_back() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    lodge.sandbox.is_away(true);
    done(&lodge, turn).await;
    assert_eq!(lodge.sandbox.kills(), 0);
    lodge.sandbox.is_away(false);
    lodge.sandbox.until(|sandbox| sandbox.kills() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_an_earlier_house_gave_up_does_not_meet_the_chats_next_turn() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    lodge.sandbox.is_away(true);
    done(&lodge, turn).await;
    let mut lodge = lodge.reopen().await;
    lodge.sandbox.is_away(false);
    let next = lodge.says(ADA, turn, "and again").await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    assert_eq!(lodge.sandbox.kills(), 1);
    answered(&lodge).await;
    done(&lodge, next).await;
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_turn_waits_for_a_place_is_not_its_own() {
    let limits = Limits {
        turn_time: Duration::from_secs(600),
        ..rules().limits
    };
    let mut lodge = Lodge::with(crate::domain::rules::Rules { limits, ..rules() }).await;
    let first = at_work(&mut lodge).await;
    let second = lodge.asks("another one").await;
    tokio::time::sleep(Duration::from_secs(590)).await;
    lodge.sandbox.emits(&[BASH_DONE]);
    answered(&lodge).await;
    done(&lodge, first).await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    lodge.sandbox.emits(&[INIT, BASH]);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(lodge.turn(second).unwrap().stage, Stage::Started);
    assert_eq!(lodge.sandbox.kills(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_admins_are_to_be_told_waits_for_discord() {
    let channel = crate::domain::ids::ChannelId(900);
    let rules = crate::domain::rules::Rules {
        admin_channel: Some(channel),
        ..rules()
    };
    let lodge = Lodge::with(rules).await;
    for _ in 0..3 {
        let away = SurfaceError::Away("503".to_owned());
        lodge.surface.fails("post", away);
    }
    super::alarm::tell_admins(&lodge.house, "the disk is full");
    super::alarm::tell_admins(&lodge.house, "the disk is full");
    lodge.surface.until(|said| texts(said).len() == 1).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let said = lodge.surface.said();
    assert!(
        matches!(&said[..], [Said::Post { channel: at, post, .. }] if *at == channel && post.text.contains("the disk is full")),
        "{said:?}"
    );
}

fn stop_of(turn: TurnId) -> InboundStop {
    InboundStop {
        id: crate::domain::ids::InteractionId(1),
        thread: crate::domain::ids::ThreadId(turn.0),
        by: person(ADA, &[]),
    }
}

fn stops(lodge: &Lodge, turn: TurnId) -> InboundPress {
    InboundPress {
        id: crate::domain::ids::InteractionId(1),
        guild: GUILD,
        channel: ChannelId(turn.0),
        message: lodge.turn(turn).unwrap().live.unwrap(),
        by: person(ADA, &[]),
        custom_id: Button::Stop(turn).id(),
        values: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn that_a_turn_is_stopping_is_stored_before_it_is_said() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    let reply = lodge.desk.stop(stop_of(turn)).await;
    // The chat's task has not had the time to read its letter.
    assert_eq!(lodge.turn(turn).unwrap().stopped_by, Some(ADA));
    assert!(reply.text.contains("Stopping"), "{reply:?}");
    done(&lodge, turn).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_was_wished_before_the_house_closed_is_carried_out_by_the_next() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    lodge.house.store.wish_stop(turn, ADA).unwrap();
    let lodge = lodge.reopen().await;
    lodge.sandbox.until(|sandbox| sandbox.kills() > 0).await;
    done(&lodge, turn).await;
    let receipt = texts(&lodge.surface.said()).pop().unwrap();
    assert!(receipt.starts_with("-# ■ stopped by"), "{receipt}");
    assert!(receipt.contains("1 step"), "what it did is told: {receipt}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_over_is_not_said_to_be_stopping() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.surface.until(|said| !texts(said).is_empty()).await;
    for _ in 0..3 {
        let away = SurfaceError::Away("503".to_owned());
        lodge.surface.fails("post", away);
    }
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    while !matches!(lodge.turn(turn).unwrap().stage, Stage::Settled { .. }) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let reply = lodge.desk.stop(stop_of(turn)).await;
    assert!(reply.text.contains("Nothing is running"), "{reply:?}");
    done(&lodge, turn).await;
}

/// Ada's first turn runs, and people see her second one waiting for a place.
async fn one_waits(lodge: &mut Lodge) -> (TurnId, TurnId) {
    let first = started(lodge).await;
    let second = lodge.asks("and this").await;
    lodge
        .surface
        .until(|said| {
            texts(said)
                .iter()
                .any(|text| text.contains("Waiting for a free place"))
        })
        .await;
    while lodge.turn(second).unwrap().live.is_none() {
        tokio::task::yield_now().await;
    }
    (first, second)
}

/// Returns the texts of what is in a thread now.
fn texts_in(lodge: &Lodge, thread: TurnId) -> Vec<String> {
    let mut now: Vec<(MessageId, String)> = Vec::new();
    for said in lodge.surface.said() {
        match said {
            Said::Post {
                channel, id, post, ..
            } if channel.0 == thread.0 => now.push((id, post.text)),
            Said::Edit { message, post } => {
                for (_, text) in now.iter_mut().filter(|(id, _)| *id == message) {
                    text.clone_from(&post.text);
                }
            }
            Said::Delete { message } => now.retain(|(id, _)| *id != message),
            Said::Post { .. } | Said::Thread { .. } => {}
        }
    }
    now.into_iter().map(|(_, text)| text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_a_place_shows_that_it_waits_and_goes_on_in_the_same_message() {
    let mut lodge = Lodge::open().await;
    let (first, second) = one_waits(&mut lodge).await;
    let live = lodge.turn(second).unwrap().live.unwrap();
    assert!(
        lodge
            .surface
            .said()
            .iter()
            .any(|said| matches!(said, Said::Post { id, post, .. } if *id == live && post.silent))
    );
    answered(&lodge).await;
    done(&lodge, first).await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    done(&lodge, second).await;
    let record = lodge.turn(second).unwrap();
    assert_eq!(record.live, Some(live));
    let texts = texts_in(&lodge, second);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("-# ✓"), "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_a_place_can_be_stopped_by_its_button() {
    let mut lodge = Lodge::open().await;
    let (first, second) = one_waits(&mut lodge).await;
    let reply = lodge.desk.press(stops(&lodge, second)).await;
    assert!(reply.text.contains("Taken back"), "{reply:?}");
    assert_eq!(lodge.turn(second).unwrap().stopped_by, Some(ADA));
    done(&lodge, second).await;
    let texts = texts_in(&lodge, second);
    assert!(texts[0].starts_with("-# ■ stopped by"), "{texts:?}");
    answered(&lodge).await;
    done(&lodge, first).await;
    assert_eq!(lodge.sandbox.starts(), 1);
    assert_eq!(lodge.house.store.entry(second).unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_turn_whose_message_is_deleted_seems_to_wait_no_longer() {
    let mut lodge = Lodge::open().await;
    let (first, second) = one_waits(&mut lodge).await;
    lodge
        .desk
        .inbound(Inbound::Deleted {
            messages: vec![MessageId(second.0)],
            channel: DATA,
        })
        .await;
    done(&lodge, second).await;
    let texts = texts_in(&lodge, second);
    assert!(texts[0].starts_with("-# ■ stopped by"), "{texts:?}");
    answered(&lodge).await;
    done(&lodge, first).await;
    assert_eq!(lodge.sandbox.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_stopped_while_it_waited_is_ended_by_the_next_house() {
    let mut lodge = Lodge::open().await;
    let (first, second) = one_waits(&mut lodge).await;
    lodge.house.store.wish_stop(second, ADA).unwrap();
    let lodge = lodge.reopen().await;
    done(&lodge, second).await;
    let texts = texts_in(&lodge, second);
    assert!(texts[0].starts_with("-# ■ stopped by"), "{texts:?}");
    answered(&lodge).await;
    done(&lodge, first).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waited_goes_on_waiting_in_the_next_house() {
    let mut lodge = Lodge::open().await;
    let (first, second) = one_waits(&mut lodge).await;
    let mut record = lodge.turn(second).unwrap();
    // As if the process had ended before it noted the message.
    record.live = None;
    let lodge = lodge.reopen().await;
    lodge.house.store.put_turn(&record).unwrap();
    answered(&lodge).await;
    done(&lodge, first).await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    done(&lodge, second).await;
    let texts = texts_in(&lodge, second);
    assert_eq!(texts.len(), 2, "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_file_is_brought_in_takes_effect_at_once() {
    let mut lodge = Lodge::open().await;
    lodge.surface.holds("fetch");
    let mut message = lodge.message(ADA, "plot it", None);
    message.attachments = vec![Attachment {
        id: AttachmentId(41),
        message: Some(message.id),
        name: "data.csv".to_owned(),
        size: 8,
        url: "https://cdn.example/data.csv".to_owned(),
    }];
    let turn = TurnId(message.id.0);
    lodge.desk.inbound(Inbound::Message(message)).await;
    lodge
        .surface
        .until(|said| texts(said).iter().any(|text| text.contains("Starting")))
        .await;
    let asked = tokio::time::Instant::now();
    lodge.desk.stop(stop_of(turn)).await;
    done(&lodge, turn).await;
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    let receipt = texts(&lodge.surface.said()).pop().unwrap();
    assert!(receipt.starts_with("-# ■ stopped by"), "{receipt}");
    assert_eq!(lodge.sandbox.starts(), 0);
    assert_eq!(lodge.house.store.entry(turn).unwrap(), None);
    assert_eq!(lodge.house.store.holds().unwrap(), Vec::new());
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_sandbox_is_away_at_the_start_takes_effect_at_once() {
    let mut lodge = Lodge::open().await;
    lodge.sandbox.is_away(true);
    let turn = lodge.asks("plot it").await;
    lodge
        .surface
        .until(|said| {
            texts(said)
                .iter()
                .any(|text| text.contains("Waiting for the sandbox"))
        })
        .await;
    let asked = tokio::time::Instant::now();
    lodge.desk.stop(stop_of(turn)).await;
    done(&lodge, turn).await;
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(lodge.house.store.entry(turn).unwrap(), None);
}

/// A turn runs, and Ada's next two requests wait in its thread; then it ends, and the gate is asked for them.
async fn two_are_let_in(lodge: &mut Lodge) -> (TurnId, TurnId) {
    let turn = started(lodge).await;
    let one = lodge.says(ADA, turn, "paint it").await;
    let two = lodge.says(ADA, turn, "in blue").await;
    lodge.surface.holds("roles");
    answered(lodge).await;
    done(lodge, turn).await;
    (one, two)
}

async fn edits(lodge: &Lodge, turn: TurnId, text: &str) {
    let thread = lodge.turn(turn).unwrap().thread;
    let edited = Inbound::Edited {
        message: MessageId(turn.0),
        channel: ChannelId(thread.0),
        text: text.to_owned(),
    };
    lodge.desk.inbound(edited).await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_first_of_several_requests_changes_that_one_alone() {
    let mut lodge = Lodge::open().await;
    let (one, two) = two_are_let_in(&mut lodge).await;
    edits(&lodge, one, "draw it").await;
    lodge.surface.lets_go("roles");
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    assert_eq!(lodge.turn(one).unwrap().request.text, "draw it\n\nin blue");
    assert_eq!(lodge.turn(two).unwrap().stage, Stage::Done);
    lodge.sandbox.ends(1);
    done(&lodge, one).await;
}

#[tokio::test(start_paused = true)]
async fn of_several_requests_the_one_that_is_deleted_goes_alone() {
    for deleted in [0, 1] {
        let mut lodge = Lodge::open().await;
        let (one, two) = two_are_let_in(&mut lodge).await;
        let gone = [one, two][deleted];
        let left = [two, one][deleted];
        let thread = lodge.turn(one).unwrap().thread;
        let messages = vec![MessageId(gone.0)];
        let channel = ChannelId(thread.0);
        lodge
            .desk
            .inbound(Inbound::Deleted { messages, channel })
            .await;
        lodge.surface.lets_go("roles");
        lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
        let record = lodge.turn(left).unwrap();
        assert_eq!(record.request.text, ["in blue", "paint it"][deleted]);
        assert_eq!(lodge.turn(gone).unwrap().stage, Stage::Done);
        assert!(lodge.turn(gone).unwrap().parts.is_empty());
        lodge.sandbox.ends(1);
        done(&lodge, left).await;
    }
}

fn ask(lodge: &mut Lodge) -> InboundAsk {
    let message = lodge.message(ADA, "plot it", None);
    InboundAsk {
        id: crate::domain::ids::InteractionId(message.id.0 - 2000),
        place: message.place,
        author: message.author,
        project: "site".to_owned(),
        prompt: message.text,
        model: None,
        file: None,
    }
}

fn shown_requests(lodge: &Lodge) -> usize {
    let said = lodge.surface.said();
    said.iter()
        .filter(|said| matches!(said, Said::Post { post, .. } if post.text.contains("asks (")))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_request_by_command_whose_message_nobody_saw_arrive_is_served_all_the_same() {
    let mut lodge = Lodge::open().await;
    lodge.surface.loses_an_answer();
    let ask = ask(&mut lodge);
    let turn = TurnId(ask.id.0);
    let reply = lodge.desk.ask(ask).await;
    assert!(reply.text.contains("does not tell me"), "{reply:?}");
    lodge.sandbox.until(|sandbox| sandbox.starts() == 1).await;
    answered(&lodge).await;
    done(&lodge, turn).await;
    assert_eq!(shown_requests(&lodge), 1);
    assert_eq!(lodge.house.store.unshown().unwrap(), Vec::new());
}

#[tokio::test(start_paused = true)]
async fn a_request_by_command_that_was_shown_as_the_house_ended_is_served_by_the_next() {
    let mut lodge = Lodge::open().await;
    let ask = ask(&mut lodge);
    let turn = TurnId(ask.id.0);
    // The message arrives, its answer does not, and the process ends.
    lodge.surface.loses_an_answer();
    lodge.house.cancel.cancel();
    lodge
        .surface
        .fails("ours_after", SurfaceError::Away("503".to_owned()));
    lodge.desk.ask(ask).await;
    assert_eq!(lodge.turn(turn), None);
    let lodge = lodge.reopen().await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 1).await;
    answered(&lodge).await;
    done(&lodge, turn).await;
    assert_eq!(shown_requests(&lodge), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_by_command_that_was_not_shown_is_forgotten() {
    let mut lodge = Lodge::open().await;
    lodge
        .surface
        .fails("post", SurfaceError::Away("503".to_owned()));
    let ask = ask(&mut lodge);
    let turn = TurnId(ask.id.0);
    lodge.desk.ask(ask).await;
    while !lodge.house.store.unshown().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(lodge.turn(turn), None);
    assert_eq!(shown_requests(&lodge), 0);
}

/// Asks Ada which of two projects a request of hers is about.
async fn asks_for_a_project(lodge: &mut Lodge) -> TurnId {
    let message = lodge.message(ADA, "plot it", None);
    // What is said about a message is newer than it.
    tokio::time::advance(Duration::from_millis(1)).await;
    let turn = TurnId(message.id.0);
    let request = Request {
        author: message.author,
        text: message.text,
        message: Some(message.id),
        ..turn_sample(1, ThreadId(1), Stage::Waiting).request
    };
    let choices = ["site".parse().unwrap(), "notes".parse().unwrap()];
    which_project::ask(&lodge.house, request, message.place, turn, &choices).unwrap();
    turn
}

fn menus(lodge: &Lodge) -> usize {
    let said = lodge.surface.said();
    said.iter()
        .filter(|said| matches!(said, Said::Post { post, .. } if post.menu.is_some()))
        .count()
}

#[tokio::test(start_paused = true)]
async fn the_question_for_a_project_is_asked_once_discord_is_back() {
    let mut lodge = Lodge::open().await;
    for _ in 0..3 {
        lodge
            .surface
            .fails("post", SurfaceError::Away("503".to_owned()));
    }
    asks_for_a_project(&mut lodge).await;
    lodge.surface.until(|said| !said.is_empty()).await;
    assert_eq!(menus(&lodge), 1);
}

#[tokio::test(start_paused = true)]
async fn the_question_for_a_project_survives_the_house_and_is_not_doubled() {
    for arrives in [false, true] {
        let mut lodge = Lodge::open().await;
        if arrives {
            lodge.surface.loses_an_answer();
        } else {
            lodge
                .surface
                .fails("post", SurfaceError::Away("503".to_owned()));
        }
        let turn = asks_for_a_project(&mut lodge).await;
        tokio::task::yield_now().await;
        while lodge.surface.has_failures() {
            tokio::task::yield_now().await;
        }
        lodge.surface.forgets_nonces();
        let lodge = lodge.reopen().await;
        while !lodge.house.store.pending().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(menus(&lodge), 1, "arrives: {arrives}");
        assert!(lodge.house.store.undecided(turn).unwrap().is_some());
    }
}

const USED: &str = r#"{"type":"assistant","message":{"id":"m3","model":"claude-haiku-4-5","role":"assistant","usage":{"input_tokens":100000,"cache_creation_input_tokens":40000,"cache_read_input_tokens":0,"output_tokens":1},"content":[{"type":"text","text":"Here it is."}]},"parent_tool_use_id":null}"#;
const USED_MORE: &str = r#"{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20000}},"parent_tool_use_id":null}"#;

#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_is_charged_for_what_its_stream_says_that_it_used() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.sandbox.emits(&[INIT, USED, USED, USED_MORE]);
    lodge.sandbox.ends(137);
    let said = lodge.surface.until(has_receipt).await;
    assert!(texts(&said).last().unwrap().contains("≈ $0.25"));
    done(&lodge, turn).await;
    let entry = lodge.house.store.entry(turn).unwrap().unwrap();
    // 100,000 tokens of input, 40,000 written to the cache at 1.25 times its price, 20,000 of output at five times.
    assert_eq!((entry.cost.0, entry.estimated), (250_000, true));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_without_telling_what_it_used_costs_what_was_held() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    lodge.sandbox.ends(137);
    done(&lodge, turn).await;
    let entry = lodge.house.store.entry(turn).unwrap().unwrap();
    assert_eq!((entry.cost.0, entry.estimated), (1_000_000, true));
}

fn no_access() -> SurfaceError {
    SurfaceError::Forbidden("View Channel".to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_a_permission_and_comes_once_with_its_receipt() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.surface.until(|said| !texts(said).is_empty()).await;
    for _ in 0..6 {
        lodge.surface.fails("post", no_access());
        lodge.surface.fails("edit", no_access());
    }
    answered(&lodge).await;
    done(&lodge, turn).await;
    assert_eq!(answers(&lodge.surface.said()), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_waits_for_a_permission_holds_nothing_up_and_outlives_the_bot() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.surface.until(|said| !texts(said).is_empty()).await;
    lodge.surface.fails("post", no_access());
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    let waits = |said: &[Said]| {
        said.iter().any(|said| {
            matches!(said, Said::Post { channel, post, .. } if *channel == DATA && post.text.contains("**View Channel**"))
        })
    };
    lodge.surface.until(waits).await;
    assert_eq!(answers(&lodge.surface.said()), 0);
    // Whoever waits for it may ask elsewhere meanwhile.
    lodge.surface.fails("post", no_access());
    lodge.asks("plot something else").await;
    lodge.sandbox.until(|sandbox| sandbox.starts() == 2).await;
    lodge.surface.fails("ours_after", no_access());
    let lodge = lodge.reopen().await;
    done(&lodge, turn).await;
    assert_eq!(answers(&lodge.surface.said()), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_waited_for_a_permission_for_a_day_is_given_up() {
    let mut lodge = Lodge::open().await;
    let turn = started(&mut lodge).await;
    lodge.surface.until(|said| !texts(said).is_empty()).await;
    for _ in 0..2_000 {
        lodge.surface.fails("post", no_access());
    }
    lodge.sandbox.emits(&[WORDS, RESULT]);
    lodge.sandbox.ends(0);
    tokio::time::sleep(Duration::from_secs(23 * 60 * 60)).await;
    assert_ne!(lodge.turn(turn).unwrap().stage, Stage::Done);
    done(&lodge, turn).await;
    assert_eq!(answers(&lodge.surface.said()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_bot_that_is_removed_from_the_server_stops_its_turns_there() {
    let mut lodge = Lodge::open().await;
    let turn = at_work(&mut lodge).await;
    let removed = |guild| Inbound::Removed { guild };
    lodge.desk.inbound(removed(GuildId(GUILD.0 + 1))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(lodge.sandbox.kills(), 0);
    lodge.desk.inbound(removed(GUILD)).await;
    lodge.sandbox.until(|sandbox| sandbox.kills() > 0).await;
    done(&lodge, turn).await;
    assert!(lodge.house.store.entry(turn).unwrap().is_some());
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
        message: None,
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
