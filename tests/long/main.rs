//! The restarts and storms of `tests/restarts.rs` at their full length, with real processes: a turn of a minute, a sandbox
//! server away for twenty seconds, a bot away for two minutes, three minutes in which half of Discord's answers are no.
//!
//! `tests/long/run` runs it, in about twelve minutes; what it printed is kept in `docs/restarts.md`. The times here are what
//! is tried, not what is waited for in the hope that something happens.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail; clippy knows only functions marked as tests"
)]

#[path = "../endurance/house.rs"]
#[allow(dead_code, reason = "the endurance test uses the rest")]
mod house;
#[path = "../endurance/people.rs"]
#[allow(dead_code, reason = "the endurance test uses the rest")]
mod people;
#[path = "../endurance/sight.rs"]
#[allow(dead_code, reason = "the short stories use the rest")]
mod sight;
#[path = "../endurance/trouble.rs"]
#[allow(dead_code, reason = "the endurance test uses the rest")]
mod trouble;
#[path = "../endurance/verdict.rs"]
#[allow(dead_code, reason = "the endurance test uses the rest")]
mod verdict;

use std::time::{Duration, Instant};

use house::{Backend, House};
use people::People;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use sight::{answers, booked, has_receipt, live, say, tally, thread};
use trouble::Trouble;
use verdict::Evidence;

#[tokio::main]
async fn main() {
    bot_killed_in_a_turn_of_a_minute().await;
    sandbox_server_away_for_twenty_seconds().await;
    bot_away_for_two_minutes().await;
    storm_of_three_minutes().await;
    println!("all four held");
}

/// Waits as long as is to be tried.
async fn passes(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Checks that a request has one answer with these words, one live message, now a receipt, and one entry in the ledger.
async fn answered_once(house: &mut House, asked: &str, words: &str, message: Option<u64>) {
    let world = house
        .until("a receipt", |world| has_receipt(world, asked))
        .await;
    let answers = answers(&world, asked);
    assert!(
        answers.len() == 1 && answers[0].contains(words),
        "{answers:?}"
    );
    let silent: Vec<u64> = thread(&world, asked)
        .into_iter()
        .filter(|it| house::is_silent(it))
        .map(house::id_of)
        .collect();
    assert_eq!(silent.len(), 1);
    assert!(message.is_none_or(|message| silent == [message]));
    let booked = booked(house).await;
    assert_eq!((booked.len(), &booked), (1, &tally(house)));
    println!(
        "  one answer, one receipt, booked once: {} micro-dollars, as the agent says",
        booked[0]
    );
}

/// Asks for a turn of this length and waits for its live message.
async fn ask_for(house: &House, seconds: u64) -> (String, u64) {
    let text =
        format!("please\n!step Bash make\n!sleep {seconds}\n!cost 0.25\n!say the long answer");
    let asked = say(house, &text).await;
    let world = house
        .until("a live message", |world| live(world, &asked).is_some())
        .await;
    let (message, _) = live(&world, &asked).unwrap();
    (asked, message)
}

async fn bot_killed_in_a_turn_of_a_minute() {
    for backend in backends() {
        println!("a turn of 60 s, the bot killed with -9 after 30 s ({backend:?})");
        let mut house = House::start(backend, "").await;
        let (asked, message) = ask_for(&house, 60).await;
        passes(30).await;
        let edits = live(&house.world().await, &asked).unwrap().1;
        house.kill_bot();
        passes(3).await;
        house.start_bot();
        let began = Instant::now();
        let goes_on =
            |world: &Value| live(world, &asked).is_some_and(|it| it.0 == message && it.1 > edits);
        house.until("the same live message goes on", goes_on).await;
        println!(
            "  the same live message goes on {:.1} s after the start",
            began.elapsed().as_secs_f64()
        );
        answered_once(&mut house, &asked, "the long answer", Some(message)).await;
    }
}

async fn sandbox_server_away_for_twenty_seconds() {
    if house::open_terminal().is_none() {
        println!("open-terminal is not installed: its restart is not tried");
        return;
    }
    println!("a turn of 40 s, open-terminal killed with -9 after 10 s and started 20 s later");
    let mut house = House::start(Backend::OpenTerminal, "").await;
    let (asked, message) = ask_for(&house, 40).await;
    passes(10).await;
    house.kill_server();
    passes(20).await;
    let world = house.world().await;
    let told = thread(&world, &asked)
        .iter()
        .any(|it| it["content"].as_str().unwrap().contains("sandbox"));
    assert!(told, "nobody was told that the sandbox is away");
    house.start_server().await;
    answered_once(&mut house, &asked, "the long answer", Some(message)).await;
}

async fn bot_away_for_two_minutes() {
    println!("the bot away for 120 s, asked in the middle");
    let mut house = House::start(Backend::Local, "").await;
    house
        .until("the bot listens", |_| house.has_caught_up())
        .await;
    house.kill_bot();
    passes(60).await;
    let asked = say(&house, "hello\n!cost 0.01\n!say I was away").await;
    passes(60).await;
    house.start_bot();
    let began = Instant::now();
    house
        .until("a receipt", |world| has_receipt(world, &asked))
        .await;
    println!(
        "  answered {:.1} s after the start",
        began.elapsed().as_secs_f64()
    );
    answered_once(&mut house, &asked, "I was away", None).await;
}

async fn storm_of_three_minutes() {
    for backend in backends() {
        println!("180 s in which every second call gets 429 or 503 ({backend:?})");
        let mut house = House::start(backend, "queue_depth = 4").await;
        let any = "* /channels/**";
        let storm = json!([
            {"on": any, "status": 429, "retry_after": 0.3, "every": 4},
            {"on": any, "status": 503, "every": 3},
        ]);
        house.misbehave(storm).await;
        let (mut people, mut trouble) = (People::new(), Trouble::default());
        let mut random = StdRng::seed_from_u64(1);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(180) {
            people.act(&house, &mut random).await;
            people.rest(&house).await;
            passes(1).await;
        }
        let mut faults = trouble.calm(&mut house).await;
        people.finish().await;
        faults.extend(verdict::settle(&mut house).await);
        let world = house.world().await;
        faults.extend(verdict::examine(&house).err());
        let evidence = Evidence::of(&house, world).await;
        let found = verdict::judge(&evidence, &people, &trouble);
        faults.extend(found.faults);
        let requests = house.requests().await;
        let with = |status: u64| {
            let fits = |request: &&Value| request["status"] == status;
            requests.iter().filter(fits).count()
        };
        println!(
            "  {} calls, of them {} with 429 and {} with 503; {} requests: {}",
            requests.len(),
            with(429),
            with(503),
            people.requests.len(),
            found.told
        );
        assert!(with(429) + with(503) > 0, "there was no storm");
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

fn backends() -> Vec<Backend> {
    match house::open_terminal() {
        Some(_) => vec![Backend::OpenTerminal, Backend::Local],
        None => vec![Backend::Local],
    }
}
