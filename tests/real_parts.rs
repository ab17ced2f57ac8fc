//! The story with the real parts: the real sandbox server with an account of its own, the real agent's program confined in
//! it, the meter in between. Only Discord and the provider are stood in for.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests are here"
)]

mod real;

use std::path::Path;
use std::time::Instant;

use innkeeper::domain::money::Usd;
use innkeeper::meter::{Prices, Usage};
use innkeeper::store::EntryFilter;
use serde_json::{Value, json};

use real::provider::{KEY, bash, calls, says};
use real::{House, gate, thread_of, turn_of};

/// Writes a small picture with nothing but Python's own library.
const PICTURE: &str = r"python3 - <<'EOF'
import struct, zlib
def piece(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
rows = b''.join(b'\0' + bytes([200, y * 8, 40]) * 40 for y in range(30))
with open('plot.png', 'wb') as out:
    out.write(b'\x89PNG\r\n\x1a\n' + piece(b'IHDR', struct.pack('>IIBBBBB', 40, 30, 8, 2, 0, 0, 0)))
    out.write(piece(b'IDAT', zlib.compress(rows)) + piece(b'IEND', b''))
EOF";

/// Numbers that leave fractions of a micro-dollar in every class.
fn usage() -> Value {
    json!({
        "input_tokens": 1237,
        "output_tokens": 211,
        "cache_read_input_tokens": 48_611,
        "cache_creation_input_tokens": 7013,
        "cache_creation": {"ephemeral_5m_input_tokens": 3010, "ephemeral_1h_input_tokens": 4003},
    })
}

fn scenario(turns: &[Value]) -> Value {
    json!({"turns": turns, "usage": usage()})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_comes_back_and_costs_what_the_agents_program_says() {
    let turns = [
        bash(&format!("{}\n{PICTURE}", gate("plotting"))),
        bash(&gate("checking")),
        says("Here is the **plot**."),
    ];
    let Some(house) = House::open("picture", scenario(&turns)).await else {
        return;
    };
    let asked = Instant::now();
    let thread = house.says("data", "@innkeeper plot the sales").await;
    house
        .until("a live message", |house| {
            !house.messages(&thread).is_empty()
        })
        .await;
    let first_reply = asked.elapsed();
    // The fake provider answers in the moment in which it is asked.
    let step = house.shows("plotting").await.at - house.provider.asked_at().await[0];
    house.begins(&thread, "plotting").await;
    let first = house.store.counted(turn_of(&thread)).unwrap().unwrap();
    assert!(
        first.spent > Usd::ZERO && first.open_worst == Usd::ZERO,
        "{first:?}"
    );
    house.lets_go_on(&thread, "plotting");
    house.shows("checking").await;
    house.lets_go_on(&thread, "checking");
    let receipt = house.receipt(&thread, 1).await;
    println!(
        "first visible reply {} ms after the mention; a step shown {step} ms after the model took it",
        first_reply.as_millis(),
    );

    let messages = house.messages(&thread);
    let answer = messages
        .iter()
        .find(|message| message["content"].as_str().unwrap().contains("**plot**"))
        .unwrap_or_else(|| panic!("no answer\n{}", house.story()));
    assert_eq!(answer["pings"], json!(["ada"]), "{answer}");
    assert_eq!(answer["attachments"][0]["name"], "plot.png", "{answer}");
    assert_eq!(
        answer["attachments"].as_array().unwrap().len(),
        1,
        "{answer}"
    );
    let picture = fetch(answer["attachments"][0]["url"].as_str().unwrap()).await;
    let picture = image::load_from_memory(&picture).unwrap();
    assert_eq!((picture.width(), picture.height()), (40, 30));

    let result = house.result(&thread, &thread);
    let theirs = Usd::from_dollars(result["total_cost_usd"].as_f64().unwrap());
    let entries = house.store.entries(&EntryFilter::default()).unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(
        (entries[0].cost, entries[0].estimated),
        (theirs, false),
        "{result}"
    );
    // Each request costs the same, but for what is lost in rounding the first one's share.
    let (all, one) = (entries[0].cost.0, first.spent.0);
    assert!(all.abs_diff(3 * one) <= 2, "{all} {one}");
    assert!(
        receipt.contains(&theirs.to_string()) && receipt.contains("2 steps"),
        "{receipt}"
    );
    let told = house.command("data", "usage").await;
    assert!(
        told.contains("site") && told.contains(&theirs.to_string()),
        "{told}"
    );
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_turn_leaves_no_process_and_pays_for_what_ran() {
    let turns = [bash("sleep 600 # a long one"), says("Slept.")];
    let Some(house) = House::open("stop", scenario(&turns)).await else {
        return;
    };
    let thread = house.says("data", "@innkeeper please wait").await;
    house.shows("sleep 600").await;
    house
        .until("the command runs", |house| sleeps(house, &thread))
        .await;
    let before = house.of_run(&thread, &thread);
    for program in ["claude", "socat", "bwrap"] {
        let runs = before.iter().any(|process| process.line.contains(program));
        assert!(runs, "{program} is not among {before:?}");
    }
    let ran = house.store.counted(turn_of(&thread)).unwrap().unwrap();
    let stopping = Instant::now();
    house.command(&thread, "stop").await;
    let receipt = house.receipt(&thread, 1).await;
    println!(
        "stopped {} ms after the command",
        stopping.elapsed().as_millis()
    );
    assert!(receipt.contains("stopped by"), "{receipt}");
    let left = house.of_run(&thread, &thread);
    assert!(left.is_empty(), "{left:?}");
    // Whatever hides its mark is still the account's.
    let mut left = house.terminal.processes();
    left.retain(|process| {
        ["claude", "socat", "bwrap", "sleep"]
            .iter()
            .any(|it| process.line.contains(it))
    });
    assert!(left.is_empty(), "{left:?}");
    let entry = house.store.entry(turn_of(&thread)).unwrap().unwrap();
    assert_eq!((entry.cost, entry.estimated), (ran.spent, false));
    assert!(entry.cost > Usd::ZERO);
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_message_goes_on_in_the_same_conversation() {
    let turns = [says("The number is 4711."), says("As I said: 4711.")];
    let Some(house) = House::open("resume", scenario(&turns)).await else {
        return;
    };
    let thread = house.says("data", "@innkeeper which number is it").await;
    house.receipt(&thread, 1).await;
    let session = house
        .store
        .chat(thread_of(&thread))
        .unwrap()
        .unwrap()
        .session;
    let second = house.says(&thread, "say it once more").await;
    house.receipt(&thread, 2).await;
    let after = house
        .store
        .chat(thread_of(&thread))
        .unwrap()
        .unwrap()
        .session;
    assert!(
        session.begun && session.id == after.id,
        "{session:?} {after:?}"
    );
    let asked = house.provider.asked().await;
    assert_eq!(asked.len(), 2, "{asked:?}");
    let last = asked[1]["messages"].to_string();
    let order = [
        "which number is it",
        "The number is 4711.",
        "say it once more",
    ];
    let places: Vec<_> = order.iter().map(|words| last.find(words)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}: {last}"
    );
    for request in &asked {
        let user = request["metadata"]["user_id"].as_str().unwrap();
        assert!(user.contains(&session.id.0), "{user}");
    }
    for turn in [&thread, &second] {
        let result = house.result(&thread, turn);
        let entry = house.store.entry(turn_of(turn)).unwrap().unwrap();
        let theirs = Usd::from_dollars(result["total_cost_usd"].as_f64().unwrap());
        assert_eq!((entry.cost, entry.estimated), (theirs, false), "{result}");
    }
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_stays_with_the_bot_and_the_token_with_the_turn() {
    let larger = json!({"description": "look", "prompt": "look around carefully", "model": "opus",
        "subagent_type": "general-purpose"});
    let scenario = json!({
        "routes": [{"when": {"first_user_contains": "look around carefully"}, "turns": [says("Seen.")]}],
        "turns": [bash(&format!("env > .env.txt; {}", gate("looking"))), calls("Agent", larger), says("Done.")],
        "usage": usage(),
    });
    let Some(house) = House::open("secrets", scenario).await else {
        return;
    };
    let thread = house.says("data", "@innkeeper look around").await;
    let env = house.workspace(&thread).join(".env.txt");
    house.begins(&thread, "looking").await;
    let (token, base) = access(&house, &thread);
    let mut with_token = 0;
    for process in house.of_run(&thread, &thread) {
        let Some(found) = real::memory::holds(process.id, &[KEY, &token]) else {
            continue;
        };
        assert!(!found[0], "the key is in the memory of {}", process.line);
        with_token += usize::from(found[1]);
    }
    // What is there is found: the agent's program knows its token.
    assert!(with_token > 0, "{}", house.story());
    for (what, text) in everything(&house) {
        assert!(!text.contains(KEY), "the key is in {what}");
        // The agent itself needs the token, and so do its own children; it is in no file and on no command line.
        if !what.starts_with("the environment of") {
            assert!(!text.contains(&token), "the token is in {what}");
        }
    }
    let confined = std::fs::read_to_string(env).unwrap();
    assert!(
        confined.contains("INNKEEPER_RUN=") && !confined.contains(&token),
        "{confined}"
    );
    let asks = |model: &str| {
        let body = json!({"model": model, "max_tokens": 300, "messages": [{"role": "user", "content": "x"}]});
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .post(format!("{base}/v1/messages"))
            .bearer_auth(&token)
            .json(&body);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(asks("claude-opus-4-8").await, 400);
    house.lets_go_on(&thread, "looking");
    house.receipt(&thread, 1).await;
    let models: Vec<String> = house
        .provider
        .asked()
        .await
        .iter()
        .map(|request| request["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(models, ["claude-sonnet-5"; 4], "{}", house.story());
    assert_eq!(asks("claude-sonnet-5").await, 403);
    assert_eq!(house.provider.asked().await.len(), 4);
    let log = real::log();
    assert!(!log.contains(KEY) && !log.contains(&token));
    house.close().await;
}

/// Five sub-agents ask at once, and what they write is more than the turn may cost. The provider's own books are the judge.
#[tokio::test(flavor = "multi_thread")]
async fn five_sub_agents_at_once_stay_within_the_hold_and_what_was_done_so_far_is_delivered() {
    const HOLD: Usd = Usd(1_000_000);
    let looks = |number: u32| {
        json!({"type": "tool_use", "name": "Agent", "input": {"description": format!("look {number}"),
            "prompt": format!("look around carefully, number {number}"), "subagent_type": "general-purpose"}})
    };
    let begins = json!({"blocks": [
        {"type": "text", "text": "I made a list first."},
        {"type": "tool_use", "name": "Bash", "input": {"command": "echo one > list.txt"}}]});
    // Thirteen thousand tokens, as the meter counts what it sees; none begins before all five were asked for.
    let much = json!({"blocks": [{"type": "text", "text": "{{repeat:word :7800}}"}], "together": 5, "times": 5,
        "chunk": 400, "chunk_delay_ms": 20, "usage": {"output_tokens": 13_000}});
    let scenario = json!({
        "routes": [{"when": {"first_user_contains": "look around carefully"}, "turns": [much]}],
        "turns": [begins, {"blocks": (1..6).map(looks).collect::<Vec<_>>()}, says("All looked.")],
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 12_000, "cache_read_input_tokens": 0, "output_tokens": 200},
    });
    let Some(house) = House::open("sub_agents", scenario).await else {
        return;
    };
    let thread = house.says("data", "@innkeeper look everywhere").await;
    house.receipt(&thread, 1).await;
    let bills = house.provider.bills().await;
    // Each answer was begun, so its input is paid; what was cut is paid as far as it was made.
    let (mut least, mut most, mut cut) = (Usd::ZERO, Usd::ZERO, 0);
    let price = *Prices::default().price_of("claude-sonnet-5").unwrap();
    for (usage, sent) in &bills {
        let number = |key: &str| usage[key].as_u64().unwrap();
        let bill = |output: u64| {
            price.cost(&Usage {
                input: number("input_tokens"),
                cache_write: number("cache_creation_input_tokens"),
                output,
                ..Usage::default()
            })
        };
        cut += usize::from(sent.is_some());
        let (low, high) = match sent {
            Some(sent) => (0, sent.div_ceil(3)),
            None => (number("output_tokens"), number("output_tokens")),
        };
        least = least + bill(low).round();
        most = most + bill(high).round();
    }
    let entry = house.store.entry(turn_of(&thread)).unwrap().unwrap();
    println!(
        "hold {HOLD}, booked {}, the provider's own count between {least} and {most}, {} requests, {cut} of them cut",
        entry.cost,
        bills.len()
    );
    assert!(bills.len() == 7 && cut > 0, "{bills:?}\n{}", house.story());
    assert!(
        least <= entry.cost && entry.cost <= most,
        "{entry:?} {least} {most}"
    );
    // The piece of an answer with which the count passes the hold may be as long as what is left of that answer.
    let one_answer = Usd(13_000 * 15);
    assert!(entry.cost <= HOLD + one_answer, "{entry:?}");
    assert!(entry.estimated, "{entry:?}");
    let messages = house.messages(&thread);
    let shown: Vec<_> = messages
        .iter()
        .map(|message| {
            let text = message["content"].as_str().unwrap();
            let names = message["attachments"].as_array().unwrap().iter();
            let names: Vec<_> = names.map(|it| it["name"].as_str().unwrap()).collect();
            (text.to_owned(), names.join(" "))
        })
        .collect();
    println!("{shown:#?}");
    let (answer, files) = shown
        .iter()
        .find(|(text, _)| text.contains("the turn reached its limit of $1.00"))
        .unwrap_or_else(|| panic!("{}", house.story()));
    assert!(answer.contains("I made a list first."), "{answer}");
    assert_eq!(files, "list.txt");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_provider_refuses_is_told_to_the_admins_once_and_to_guests_plainly() {
    let refused = json!({"error": {"status": 401, "type": "authentication_error", "message": "invalid x-api-key",
        "headers": {"x-should-retry": "false"}}});
    let scenario = json!({"turns": [refused], "repeat_last": true});
    let Some(house) = House::open("key_refused", scenario).await else {
        return;
    };
    for _ in 0..2 {
        let thread = house.says("data", "@innkeeper hello").await;
        let receipt = house.receipt(&thread, 1).await;
        assert!(receipt.contains("✗ failed"), "{receipt}");
        let told = house.messages(&thread).into_iter().find_map(|message| {
            let text = message["content"].as_str().unwrap();
            text.contains(
                "The provider does not let me in at the moment. An admin has to mend that.",
            )
            .then(|| text.to_owned())
        });
        let told = told.unwrap_or_else(|| panic!("{}", house.story()));
        assert!(!told.contains("401") && !told.contains("key"), "{told}");
        let booked = house.store.entry(turn_of(&thread)).unwrap();
        assert_eq!(booked.map_or(Usd::ZERO, |entry| entry.cost), Usd::ZERO);
    }
    house
        .until("the admins are told", |house| !house.alarms().is_empty())
        .await;
    let alarms = house.alarms();
    assert!(
        alarms.len() == 1 && alarms[0].contains("the provider refuses the key"),
        "{alarms:?}"
    );
    assert!(!real::log().contains(KEY));
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_server_that_dies_and_comes_back_costs_nothing_but_time() {
    let turns = [bash(&gate("waiting")), says("Still here.")];
    let Some(mut house) = House::open("sandbox_dies", scenario(&turns)).await else {
        return;
    };
    let thread = house
        .says("data", "@innkeeper go on whatever happens")
        .await;
    house.begins(&thread, "waiting").await;
    house.terminal.kill();
    house.shows("Waiting for the sandbox").await;
    // The run goes on without its server.
    house.lets_go_on(&thread, "waiting");
    house.terminal.start_again().await;
    house.receipt(&thread, 1).await;
    let answers = house.messages(&thread);
    let answers = answers
        .iter()
        .filter(|message| {
            message["content"]
                .as_str()
                .unwrap()
                .ends_with("Still here.")
        })
        .count();
    assert_eq!(answers, 1, "{}", house.story());
    assert_eq!(house.provider.asked().await.len(), 2);
    let result = house.result(&thread, &thread);
    let entry = house.store.entry(turn_of(&thread)).unwrap().unwrap();
    let theirs = Usd::from_dollars(result["total_cost_usd"].as_f64().unwrap());
    assert_eq!((entry.cost, entry.estimated), (theirs, false), "{result}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_waits_for_a_sandbox_server_that_is_away_and_a_stop_reaches_it_afterwards() {
    let turns = [bash("sleep 600 # until stopped"), says("Slept.")];
    let Some(mut house) = House::open("sandbox_away", scenario(&turns)).await else {
        return;
    };
    house.terminal.kill();
    let thread = house.says("data", "@innkeeper start when you can").await;
    house.shows("Waiting for the sandbox").await;
    house.terminal.start_again().await;
    house
        .until("the command runs", |house| sleeps(house, &thread))
        .await;
    house.terminal.kill();
    house
        .until("the live message waits again", |house| {
            let shown = house.messages(&thread);
            shown[0]["content"]
                .as_str()
                .unwrap()
                .contains("Waiting for the sandbox")
        })
        .await;
    house.command(&thread, "stop").await;
    house.shows("topping").await;
    assert!(sleeps(&house, &thread), "nobody could have reached it");
    house.terminal.start_again().await;
    let receipt = house.receipt(&thread, 1).await;
    assert!(receipt.contains("stopped by"), "{receipt}");
    let left = house.of_run(&thread, &thread);
    assert!(left.is_empty(), "{left:?}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_goes_on_while_the_bot_is_closed() {
    let turns = [bash(&gate("working")), says("Done meanwhile.")];
    let Some(mut house) = House::open("bot_closes", scenario(&turns)).await else {
        return;
    };
    let thread = house.says("data", "@innkeeper take your time").await;
    house.begins(&thread, "working").await;
    house.closes_bot().await;
    house.lets_go_on(&thread, "working");
    // With the bot its meter is gone: the agent's program tries again.
    let retries = |house: &House| {
        let stream = house.stream(&thread, &thread);
        stream
            .iter()
            .filter(|line| line["subtype"] == "api_retry")
            .count()
    };
    house
        .until("the agent's program tries again", |house| {
            retries(house) > 0
        })
        .await;
    house.opens_bot().await;
    house.receipt(&thread, 1).await;
    let shown = house.messages(&thread);
    let answers = shown.iter().filter(|message| {
        message["content"]
            .as_str()
            .unwrap()
            .ends_with("Done meanwhile.")
    });
    assert_eq!((answers.count(), shown.len()), (1, 2), "{}", house.story());
    let result = house.result(&thread, &thread);
    let entry = house.store.entry(turn_of(&thread)).unwrap().unwrap();
    let theirs = Usd::from_dollars(result["total_cost_usd"].as_f64().unwrap());
    assert_eq!((entry.cost, entry.estimated), (theirs, false), "{result}");
    house.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_closing_bot_cuts_is_asked_for_again() {
    let long = json!({"blocks": [{"type": "text", "text": "First words. {{repeat:word :2000}}"}], "chunk_delay_ms": 50});
    let turns = [long, says("Said once more.")];
    let Some(mut house) = House::open("bot_cuts", scenario(&turns)).await else {
        return;
    };
    let thread = house.says("data", "@innkeeper tell me much").await;
    house.shows("word word").await;
    house.closes_bot().await;
    house.opens_bot().await;
    house.receipt(&thread, 1).await;
    let shown = house.messages(&thread);
    let answers = shown.iter().filter(|message| {
        message["content"]
            .as_str()
            .unwrap()
            .ends_with("Said once more.")
    });
    assert_eq!((answers.count(), shown.len()), (1, 2), "{}", house.story());
    // What the cut answer cost is not known for sure; the agent's program leaves it out.
    let result = house.result(&thread, &thread);
    let entry = house.store.entry(turn_of(&thread)).unwrap().unwrap();
    let theirs = Usd::from_dollars(result["total_cost_usd"].as_f64().unwrap());
    assert!(entry.estimated && entry.cost > theirs, "{entry:?} {result}");
    let details = house.details(&thread).await;
    let exact = |amount: Usd| format!("$0.{:06}", amount.0);
    let both = format!(
        "Booked: {}. By the agent's own account: {}.",
        exact(entry.cost),
        exact(theirs)
    );
    assert!(details.contains(&both), "{both}\n{details}");
    assert!(details.contains(&format!("≈ {}", entry.cost)), "{details}");
    house.close().await;
}

/// Returns whether the long command of a turn runs.
fn sleeps(house: &House, thread: &str) -> bool {
    let all = house.of_run(thread, thread);
    all.iter()
        .any(|process| process.line.contains("sleep\n600"))
}

/// Returns the token and the meter's address that the agent's program got.
fn access(house: &House, thread: &str) -> (String, String) {
    let processes = house.of_run(thread, thread);
    let value = |name: &str| {
        let start = format!("{name}=");
        let lines = processes
            .iter()
            .flat_map(|process| process.environment.lines());
        lines
            .filter_map(|line| line.strip_prefix(&start))
            .next()
            .unwrap()
            .to_owned()
    };
    (value("ANTHROPIC_AUTH_TOKEN"), value("ANTHROPIC_BASE_URL"))
}

/// Returns what can be read in the sandbox: environments, command lines, the home, the server's own files.
fn everything(house: &House) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for process in real::terminal::processes() {
        all.push((
            format!("the environment of {}", process.line),
            process.environment,
        ));
        all.push((format!("the command line of {}", process.id), process.line));
    }
    for directory in [house.terminal.home(), house.terminal.logs()] {
        let files = files(&directory);
        assert!(!files.is_empty(), "nothing is in {}", directory.display());
        all.extend(files);
    }
    all
}

fn files(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let Ok(kind) = path.symlink_metadata() else {
            continue;
        };
        if kind.is_dir() {
            todo.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if kind.is_file() {
            let text =
                String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
            found.push((path.display().to_string(), text));
        }
    }
    found
}

async fn fetch(url: &str) -> Vec<u8> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    answer
        .error_for_status()
        .unwrap()
        .bytes()
        .await
        .unwrap()
        .to_vec()
}
