//! What people see of restarts and of a Discord that misbehaves: four stories, with real processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail; clippy knows only functions marked as tests"
)]

#[path = "endurance/house.rs"]
#[allow(dead_code, reason = "the endurance test uses the rest")]
mod house;

#[path = "endurance/sight.rs"]
#[allow(dead_code, reason = "the long run uses the rest")]
mod sight;

use house::{Backend, House};
use innkeeper::store::Store;
use serde_json::{Value, json};
use sight::{
    answers, ask_for_something_long, booked, go_on, has_receipt, live, say, tally, thread,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_outlives_its_bot_and_its_live_message_goes_on() {
    let mut house = House::start(Backend::Local, "").await;
    let asked = ask_for_something_long(&house).await;
    let world = house
        .until("a live message", |world| live(world, &asked).is_some())
        .await;
    let (message, _) = live(&world, &asked).unwrap();
    house.kill_bot();
    let edits = live(&house.world().await, &asked).unwrap().1;
    house.start_bot();
    let world = house
        .until("the live message goes on", |world| {
            live(world, &asked).is_some_and(|it| it.1 > edits)
        })
        .await;
    assert_eq!(live(&world, &asked).unwrap().0, message);
    go_on(&house);
    let world = house
        .until("a receipt", |world| has_receipt(world, &asked))
        .await;
    let answers = answers(&world, &asked);
    assert!(
        answers.len() == 1 && answers[0].contains("the long answer"),
        "{answers:?}"
    );
    let silent: Vec<u64> = thread(&world, &asked)
        .into_iter()
        .filter(|it| house::is_silent(it))
        .map(house::id_of)
        .collect();
    assert_eq!(silent, [message]);
    let booked = booked(&mut house).await;
    assert_eq!((booked.len(), &booked), (1, &tally(&house)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_outlives_its_sandbox_server() {
    if house::open_terminal().is_none() {
        eprintln!("open-terminal is not installed: its restart cannot be tried");
        return;
    }
    let mut house = House::start(Backend::OpenTerminal, "").await;
    let asked = ask_for_something_long(&house).await;
    house
        .until("a live message", |world| live(world, &asked).is_some())
        .await;
    house.kill_server();
    house
        .until("people are told that the sandbox is away", |world| {
            thread(world, &asked)
                .iter()
                .any(|it| it["content"].as_str().unwrap().contains("sandbox"))
        })
        .await;
    go_on(&house);
    house.start_server().await;
    let world = house
        .until("a receipt", |world| has_receipt(world, &asked))
        .await;
    let answers = answers(&world, &asked);
    assert!(
        answers.len() == 1 && answers[0].contains("the long answer"),
        "{answers:?}"
    );
    assert_eq!(booked(&mut house).await, tally(&house));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_while_the_bot_was_away_is_answered_or_found_too_old() {
    let mut house = House::start(Backend::Local, "catch_up_minutes = 30").await;
    let before = say(&house, "hello\n!say before").await;
    house
        .until("an answer", |world| has_receipt(world, &before))
        .await;
    house.kill_bot();
    // For the bot it was hours ago that it heard anything.
    let long_ago = Store::open(&house.store()).unwrap();
    let hours_ago = before.parse::<u64>().unwrap() - ((3 * 60 * 60 * 1000) << 22);
    long_ago
        .put_fact("newest_message", &hours_ago.to_string())
        .unwrap();
    long_ago.flush_here().unwrap();
    drop(long_ago);
    let old =
        json!({"as": "ben", "do": "say", "in": "one", "text": "@innkeeper old", "minutes_ago": 31});
    let old = house.act(old).await.unwrap()["id"].clone();
    let young = json!({"as": "ben", "do": "say", "in": "one", "text": "@innkeeper hi\n!say young", "minutes_ago": 29});
    let young = house.act(young).await.unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let new = say(&house, "hello\n!say after").await;
    house.start_bot();
    let world = house
        .until("two answers and a refusal", |world| {
            let refused = house::places(world)
                .into_iter()
                .flat_map(house::bots)
                .any(|reply| reply["reply_to"] == old);
            refused && has_receipt(world, &young) && has_receipt(world, &new)
        })
        .await;
    for (asked, answer) in [(&before, "before"), (&young, "young"), (&new, "after")] {
        let answers = answers(&world, asked);
        assert!(
            answers.len() == 1 && answers[0].contains(answer),
            "{answers:?}"
        );
    }
    let told: Vec<&Value> = house::places(&world)
        .into_iter()
        .flat_map(house::bots)
        .filter(|reply| reply["reply_to"] == old)
        .collect();
    assert!(
        told.len() == 1 && told[0]["content"].as_str().unwrap().contains("away"),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_loses_nothing_and_doubles_nothing() {
    let mut house = House::start(Backend::Local, "").await;
    let any = "* /channels/**";
    let storm = json!([
        {"on": any, "status": 429, "retry_after": 0.2, "every": 4, "times": 60},
        {"on": any, "status": 503, "every": 4, "times": 60},
        {"on": "POST /channels/*/messages", "lose_reply": true, "every": 3, "times": 20},
    ]);
    house.misbehave(storm).await;
    let mut asked = Vec::new();
    for number in 0..5 {
        let text = format!("please\n!write f{number}.txt {number}\n!say answer {number}");
        asked.push(say(&house, &text).await);
    }
    let world = house
        .until("five receipts", |world| {
            asked.iter().all(|asked| has_receipt(world, asked))
        })
        .await;
    for (number, asked) in asked.iter().enumerate() {
        let answers = answers(&world, asked);
        assert!(
            answers.len() == 1 && answers[0].contains(&format!("answer {number}")),
            "{answers:?}"
        );
        let files: usize = thread(&world, asked)
            .iter()
            .map(|it| it["attachments"].as_array().map_or(0, Vec::len))
            .sum();
        assert_eq!((files, thread(&world, asked).len()), (1, 2));
    }
    let mut booked = booked(&mut house).await;
    let mut tally = tally(&house);
    booked.sort_unstable();
    tally.sort_unstable();
    assert_eq!(booked, tally);
}
