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
use innkeeper::domain::money::Usd;
use innkeeper::store::{EntryFilter, Store};
use serde_json::{Value, json};
use sight::{
    answers, ask_for_something_long, booked, go_on, has_receipt, live, say, tally, thread,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

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

/// An agent that asks the provider once, writes down what it hears, and goes on whatever comes of it.
const ASKS_ONCE: &str = r#"
import os, sys, urllib.request
body = b'{"model":"claude-haiku-4-5","max_tokens":1000,"stream":true,"messages":[]}'
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
request = urllib.request.Request(url, body, {"authorization": "Bearer " + os.environ["ANTHROPIC_AUTH_TOKEN"]})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(request) as answer, open(sys.argv[1], "ab", 0) as heard:
        while piece := answer.read1():
            heard.write(piece)
except Exception as error:
    print(error, file=sys.stderr)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_bot_could_not_count_is_charged_to_the_hold_and_called_an_estimate() {
    let provider = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = provider.local_addr().unwrap();
    let more = format!("[provider]\nbase_url = \"http://{address}\"\napi_key = \"sk-a-key\"");
    let mut house = House::start(Backend::Local, &more).await;
    let (agent, heard) = (house.directory.join("agent"), house.shared("heard"));
    let scripted = std::fs::read_to_string(&agent).unwrap();
    let script = house.shared("asks.py");
    std::fs::write(&script, ASKS_ONCE).unwrap();
    let asks = format!("python3 '{}' '{}'\nexec", script.display(), heard.display());
    std::fs::write(&agent, scripted.replace("exec", &asks)).unwrap();

    let asked = say(&house, "please\n!cost 0.25\n!say the answer").await;
    let (mut stream, _) = provider.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\"messages\":[]}") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
    }
    let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":2000,\"output_tokens\":1}}}\n\n";
    stream.write_all(begun.as_bytes()).await.unwrap();
    house
        .until("the agent hears the answer", |_| {
            std::fs::read_to_string(&heard).is_ok_and(|text| text.contains("message_start"))
        })
        .await;
    house.kill_bot();
    house.start_bot();
    let world = house
        .until("a receipt", |world| has_receipt(world, &asked))
        .await;
    let answers = answers(&world, &asked);
    assert!(
        answers.len() == 1 && answers[0].contains("the answer"),
        "{answers:?}"
    );
    let receipt = thread(&world, &asked)
        .into_iter()
        .find(|it| house::is_silent(it))
        .unwrap()["content"]
        .to_string();
    house.stop_bot().await.unwrap();
    let store = Store::open(&house.store()).unwrap();
    assert!(store.holds().unwrap().is_empty());
    let entries = store.entries(&EntryFilter::default()).unwrap();
    // What was stored last may still have been the whole hold, if the killed bot had no time for less.
    let known = [Usd(2_000 + 5 * 1_000), Usd(1_000_000)];
    assert!(
        entries.len() == 1 && entries[0].estimated && known.contains(&entries[0].cost),
        "{entries:?}"
    );
    assert!(
        receipt.contains(&format!("≈ {}", entries[0].cost)),
        "{receipt}"
    );
    let log = std::fs::read_to_string(house.directory.join("bot.log")).unwrap();
    assert!(
        log.contains("differs from what the meter counted")
            && log.contains(&format!("reported={}", tally(&house)[0])),
        "{log}"
    );
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
