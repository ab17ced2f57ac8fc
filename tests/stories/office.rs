//! Access and money: who may what, and who pays.

use innkeeper::domain::grant::Level;
use innkeeper::domain::money::Usd;
use serde_json::json;

use crate::house::House;

#[tokio::test]
async fn without_a_budget_or_with_one_that_is_used_up_nothing_runs() {
    let house = House::open().await;
    house.budget("ben", Usd::ZERO).await;
    let asked = house.says("ben", "general", "@innkeeper hello").await;
    let told = house.reply_to("general", &asked).await;
    assert_eq!(
        told.text(),
        "You have no budget yet. An admin can give you one."
    );
    house.budget("ada", Usd(2_000)).await;
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    let more = house.says("ada", &thread, "more").await;
    let told = house.reply_to(&thread, &more).await;
    assert!(
        told.text()
            .starts_with("Your budget for this month is used up ($0.00"),
        "{told:?}"
    );
    assert_eq!(house.performed(), 1);
    house.closes_quietly().await;
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused_with_what_helps() {
    let house = House::open().await;
    let unknown = house
        .command(
            "ada",
            "data",
            "ask",
            json!({"project": "moon", "prompt": "x"}),
        )
        .await;
    assert_eq!(
        unknown,
        "There is no project `moon` that you can use. You can use `site`."
    );
    let not_hers = house
        .command(
            "ada",
            "data",
            "ask",
            json!({"project": "notes", "prompt": "x"}),
        )
        .await;
    assert_eq!(
        not_hers,
        "There is no project `notes` that you can use. You can use `site`."
    );
    let model = house
        .command(
            "ada",
            "data",
            "ask",
            json!({"project": "site", "prompt": "x", "model": "opus"}),
        )
        .await;
    assert_eq!(
        model,
        "The model `opus` is not open to you here. You can use `haiku`, `sonnet`; an admin can change that."
    );
    let empty = house.says("ada", "data", "@innkeeper").await;
    let told = house.reply_to("data", &empty).await;
    assert!(
        told.text().starts_with("There is nothing to work on"),
        "{told:?}"
    );
    // Whoever holds two projects has to say which.
    house.grant("ada", "notes", Level::Chat).await;
    let which = house.says("ada", "data", "@innkeeper hello").await;
    let told = house.reply_to("data", &which).await;
    assert_eq!(
        told.text(),
        "<@410537337646743552>, in which project? Only you can choose; your request waits fifteen minutes."
    );
    assert_eq!(house.world().threads(), 0);
    house.closes_quietly().await;
}

#[tokio::test]
async fn admins_give_and_take_grants_and_everybody_sees_their_own() {
    let house = House::open().await;
    let hers = json!({"project": "site", "member": "cleo", "level": "chat", "for_how_long": "7d"});
    let given = house
        .command("alma", "general", "grant", hers.clone())
        .await;
    assert!(given.contains("site"), "{given}");
    let listed = house.command("alma", "general", "grants", json!({})).await;
    assert!(listed.contains("<@691207834510262272>"), "{listed}");
    let me = house.command("cleo", "general", "me", json!({})).await;
    assert!(me.contains("site") && me.contains("chat"), "{me}");
    // A grant without money is not enough.
    let asked = house.says("cleo", "general", "@innkeeper hello").await;
    let told = house.reply_to("general", &asked).await;
    assert!(told.text().contains("no budget yet"), "{told:?}");
    let refused = house.try_act(json!({"as": "ada", "do": "command", "in": "general", "name": "grant", "options": hers})).await;
    assert!(refused.is_err(), "{refused:?}");
    let thread = house.says("ada", "data", "@innkeeper hello").await;
    house.answers(&thread, 1).await;
    let usage = house.command("ada", "general", "usage", json!({})).await;
    assert!(usage.contains("site") && usage.contains('$'), "{usage}");
    let taken = house
        .command(
            "alma",
            "general",
            "revoke",
            json!({"project": "site", "member": "cleo"}),
        )
        .await;
    assert!(taken.contains("site"), "{taken}");
    assert_eq!(house.store().audits(10).unwrap().len(), 2);
    house.closes_quietly().await;
}
