//! The stand-in misbehaves as it is told.

use serde_json::{Value, json};

use crate::house::House;

#[tokio::test]
async fn a_lost_reply_comes_after_the_effect_and_a_hang_up_before_it() {
    let house = House::open().await;
    let channel = house.channel("data").await;
    let path = format!("/channels/{channel}/messages");
    let count = async || {
        house
            .rest("GET", &path, Value::Null)
            .await
            .1
            .as_array()
            .unwrap()
            .len()
    };
    for (rule, kept) in [("hang_up", 0), ("lose_reply", 1)] {
        house
            .fault(json!({"on": "POST /channels/*/messages", rule: true, "times": 1}))
            .await;
        assert!(
            house
                .rest_raw("POST", &path, json!({"content": rule}))
                .await
                .is_err()
        );
        assert_eq!(count().await, kept, "{rule}");
    }
    assert_eq!(
        house
            .rest("POST", &path, json!({"content": "well"}))
            .await
            .0,
        200
    );
    let lines = house
        .http
        .get(format!("{}/standin/requests", house.standin.url()))
        .send()
        .await
        .unwrap();
    let lines: Vec<Value> = lines
        .text()
        .await
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let posts: Vec<&Value> = lines
        .iter()
        .filter(|line| line["method"] == "POST")
        .collect();
    assert_eq!(
        (&posts[0]["status"], &posts[0]["reply_lost"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(
        (&posts[1]["status"], &posts[1]["reply_lost"]),
        (&json!(200), &json!(true))
    );
    assert!(posts[2].get("reply_lost").is_none());
}

#[tokio::test]
async fn a_rule_answers_in_place_of_the_route_until_it_is_cleared() {
    let house = House::open().await;
    let channel = house.channel("data").await;
    house
        .fault(json!([
            {"on": "GET /channels/*", "status": 429, "retry_after": 5, "global": true},
            {"on": "* /users/@me", "status": 502, "text": "<html>bad gateway</html>"},
        ]))
        .await;
    let response = house
        .rest_raw("GET", &format!("/channels/{channel}"), Value::Null)
        .await
        .unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            &response.headers()["retry-after"]
        ),
        (429, &"5".parse().unwrap())
    );
    assert_eq!(response.headers()["x-ratelimit-global"], "true");
    let body: Value = response.json().await.unwrap();
    assert_eq!(
        (&body["retry_after"], &body["global"]),
        (&json!(5.0), &json!(true))
    );
    let response = house
        .rest_raw("GET", "/users/@me", Value::Null)
        .await
        .unwrap();
    assert_eq!(
        (
            response.status().as_u16(),
            response.text().await.unwrap().as_str()
        ),
        (502, "<html>bad gateway</html>")
    );

    assert_eq!(
        house.own("/standin/faults").await["rules"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    house
        .http
        .delete(format!("{}/standin/faults", house.standin.url()))
        .send()
        .await
        .unwrap();
    assert_eq!(house.own("/standin/faults").await["rules"], json!([]));
    assert_eq!(house.rest("GET", "/users/@me", Value::Null).await.0, 200);
}

#[tokio::test]
async fn attachments_can_be_withheld() {
    let house = House::open().await;
    let file = json!([{"name": "a.csv", "base64": "YSxi"}]);
    house
        .act(json!({"as": "ada", "do": "say", "in": "data", "files": file}))
        .await;
    let world = house.standin.world();
    let url = world["guilds"][0]["channels"][1]["messages"][0]["attachments"][0]["url"]
        .as_str()
        .unwrap();
    house
        .fault(json!({"on": "GET /attachments/**", "status": 403, "times": 1}))
        .await;
    assert_eq!(house.http.get(url).send().await.unwrap().status(), 403);
    assert_eq!(
        house
            .http
            .get(url)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        "a,b"
    );
}

#[tokio::test]
async fn an_unusable_rule_is_refused_with_a_sentence() {
    let house = House::open().await;
    let url = format!("{}/standin/faults", house.standin.url());
    let response = house
        .http
        .post(url)
        .json(&json!({"on": "GET /x", "satus": 1}))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 400);
    let body: Value = response.json().await.unwrap();
    assert!(body["reason"].as_str().unwrap().contains("satus"), "{body}");
}
