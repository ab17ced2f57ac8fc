//! What people see of one request, and what was booked for it.

use innkeeper::store::{EntryFilter, Store};
use serde_json::{Value, json};

use super::house::{self, House};

/// Returns the messages of the thread that hangs on this message.
pub(crate) fn thread<'a>(world: &'a Value, message: &str) -> Vec<&'a Value> {
    let found = house::places(world)
        .into_iter()
        .find(|place| place["id"] == message);
    found.into_iter().flat_map(house::bots).collect()
}

/// Returns a thread's messages that are no live message and no receipt.
pub(crate) fn answers(world: &Value, message: &str) -> Vec<String> {
    let loud = thread(world, message)
        .into_iter()
        .filter(|it| !house::is_silent(it));
    loud.map(|it| it["content"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the id of the live message that works, with how often it was edited.
pub(crate) fn live(world: &Value, message: &str) -> Option<(u64, u64)> {
    let silent = thread(world, message)
        .into_iter()
        .find(|it| house::is_silent(it))?;
    let stops = house::buttons(silent)
        .iter()
        .any(|id| id.starts_with("1:stop:"));
    stops.then(|| (house::id_of(silent), silent["edits"].as_u64().unwrap_or(0)))
}

pub(crate) fn has_receipt(world: &Value, message: &str) -> bool {
    thread(world, message).into_iter().any(|it| {
        house::is_silent(it)
            && house::buttons(it)
                .iter()
                .any(|id| id.starts_with("1:details:"))
    })
}

pub(crate) async fn say(house: &House, text: &str) -> String {
    let action =
        json!({"as": "ada", "do": "say", "in": "one", "text": format!("@innkeeper {text}")});
    house.act(action).await.unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Asks for something that lasts until [`go_on`].
pub(crate) async fn ask_for_something_long(house: &House) -> String {
    let text = format!(
        "please\n!step Bash make\n!wait-for {}\n!cost 0.25\n!say the long answer",
        house.shared("go").display()
    );
    say(house, &text).await
}

pub(crate) fn go_on(house: &House) {
    std::fs::write(house.shared("go"), "").unwrap();
}

/// Stops the bot and returns what was booked, in micro-dollars.
pub(crate) async fn booked(house: &mut House) -> Vec<u64> {
    house.stop_bot().await.unwrap();
    let store = Store::open(&house.store()).unwrap();
    assert_eq!(store.check(), Vec::<String>::new());
    assert!(store.unfinished().unwrap().is_empty() && store.holds().unwrap().is_empty());
    let entries = store.entries(&EntryFilter::default()).unwrap();
    entries.iter().map(|entry| entry.cost.0).collect()
}

/// Returns what the agents say that they cost.
pub(crate) fn tally(house: &House) -> Vec<u64> {
    let text = std::fs::read_to_string(house.shared("tally")).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["cost"].as_u64().unwrap()).collect()
}
