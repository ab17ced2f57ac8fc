//! Files that come with a request.

use std::fs;

use serde_json::json;

use crate::house::House;

#[tokio::test]
async fn files_with_any_names_lie_in_the_inbox_under_safe_and_different_ones() {
    let house = House::open().await;
    let long = format!("{}.csv", "n".repeat(250));
    let files: [(&str, &[u8]); 4] = [
        ("../../x", b"one"),
        ("data.csv", b"two"),
        ("data.csv", b"three"),
        (&long, b"four"),
    ];
    let thread = house
        .says_with("ada", "data", "@innkeeper look at these", &files)
        .await;
    house.answers(&thread, 1).await;
    let inbox = house.in_homes(&format!("io/{thread}/in/{thread}"));
    let mut contents = Vec::new();
    for file in fs::read_dir(&inbox).unwrap() {
        let file = file.unwrap();
        assert!(file.file_name().len() <= 110, "{file:?}");
        contents.push(fs::read_to_string(file.path()).unwrap());
    }
    contents.sort();
    assert_eq!(contents, ["four", "one", "three", "two"]);
    assert_eq!(
        house
            .told(&thread, &thread)
            .matches("[attached file: ")
            .count(),
        4
    );
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_file_that_is_too_large_is_refused_before_anything_happens() {
    let house = House::plan().limits("upload_bytes = 1000\n").open().await;
    let asked = house
        .says_with("ada", "data", "@innkeeper look", &[("a.bin", &[0; 2000])])
        .await;
    let refused = house.reply_to("data", &asked).await;
    assert_eq!(
        refused.text(),
        "`a.bin` is too large: it has 1.9 KiB, and at most 1000 bytes are taken. Nothing was run."
    );
    assert_eq!(house.world().threads(), 0);
    assert!(house.ledger().is_empty());
    house.closes_quietly().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_fetched_ends_the_turn_before_it_begins_and_costs_nothing() {
    let house = House::open().await;
    for status in [404, 500] {
        house
            .fault(json!({"on": "GET /attachments/*/*/*", "status": status, "times": 2}))
            .await;
        let thread = house
            .says_with("ada", "data", "@innkeeper look", &[("a.txt", b"a")])
            .await;
        let answer = house.answer(&thread).await;
        assert!(
            answer.text().contains("`a.txt` could not be brought in: "),
            "{answer:?}"
        );
        let receipt = &house.thread(&thread).await.receipts()[0];
        assert!(receipt.text().contains("a file is missing"), "{receipt:?}");
        let clear = json!({"on": "GET /none", "status": 500, "times": 0});
        house.fault(clear).await;
        house.is_idle().await;
    }
    assert!(house.ledger().is_empty());
    assert_eq!(house.performed(), 0);
    house.closes_quietly().await;
}
