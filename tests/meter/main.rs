//! The meter between a sandbox and a provider.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests are here"
)]

mod house;
mod real_cli;
mod upstream;

use innkeeper::domain::money::Usd;
use innkeeper::meter::{Ask, Lease, Prices, SEATS};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use house::{ASK, Guest, House, KEY, Told, lease};
use upstream::Upstream;

const DOLLAR: Usd = Usd(1_000_000);

async fn start() -> (Upstream, House) {
    let upstream = Upstream::start().await;
    let house = House::start(&upstream.url()).await;
    (upstream, house)
}

#[tokio::test]
async fn the_real_key_is_put_on_and_the_token_stays_behind() {
    let (upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = tokio::spawn(
        guest
            .post("/v1/messages?beta=true", ASK)
            .header("anthropic-version", "2023-06-01")
            .header("anthropic-beta", "a,files-api-2025-04-14")
            .header("cookie", "c")
            .send(),
    );
    let asked = upstream.asked().await;
    assert!(
        asked
            .head
            .starts_with("POST /base/v1/messages?beta=true HTTP/1.1\r\n"),
        "{}",
        asked.head
    );
    assert_eq!(asked.header("x-api-key"), Some(KEY));
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(asked.header("anthropic-beta"), Some("a"));
    assert_eq!(asked.header("cookie"), None);
    assert_eq!(asked.header("authorization"), None);
    assert!(!asked.head.contains(&guest.token));
    assert_eq!(asked.body, ASK.as_bytes());
    asked
        .answer("200 OK", "set-cookie: c\r\nrequest-id: r\r\n", "{}")
        .await;
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.headers()["request-id"], "r");
    assert!(!answer.headers().contains_key("set-cookie"));
}

#[tokio::test]
async fn an_answer_comes_piece_by_piece_and_is_counted() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(100).await;
    let mut answer = answer.await.unwrap();
    let first = answer.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: {\"type\":\"message_start\""));
    asked.text("Hello").await;
    let second = answer.chunk().await.unwrap().unwrap();
    assert!(second.ends_with(b"\"text\":\"Hello\"}}\n\n"));
    asked.end(20).await;
    while answer.chunk().await.unwrap().is_some() {}
    let charge = house.settles().await;
    assert_eq!((charge.spent, charge.estimated), (Usd(300 + 300), false));
    let closed = house.meter.close(guest.turn).unwrap();
    assert_eq!(
        (closed.spent, closed.estimated, closed.requests),
        (Usd(600), false, 1)
    );
    assert_eq!(closed.by_model, [("claude-sonnet-5".to_owned(), Usd(600))]);
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_counted_too() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK.replace("true", "false"));
    let text = r#"{"content":[],"usage":{"input_tokens":10,"output_tokens":2}}"#;
    upstream
        .asked()
        .await
        .answer("200 OK", "content-type: application/json\r\n", text)
        .await;
    assert_eq!(answer.await.unwrap().text().await.unwrap(), text);
    assert_eq!(house.settles().await.spent, Usd(60));
}

#[tokio::test]
async fn what_a_request_may_cost_is_stored_before_it_is_forwarded() {
    let upstream = Upstream::start().await;
    let house = House::start_with(&upstream.url(), |_| false).await;
    let guest = house.guest(1, DOLLAR);
    let (status, _) = guest.hears("/v1/messages", ASK).await;
    assert_eq!(status, 503);
    assert!(!upstream.is_asked().await);
    let told = house.told.borrow().clone();
    assert!(
        matches!(told[0], Told::Opening(charge) if charge.open_worst == DOLLAR),
        "{told:?}"
    );
    assert_eq!(house.meter.close(guest.turn).unwrap().spent, Usd::ZERO);
}

#[tokio::test]
async fn a_token_is_good_for_its_own_turn_until_that_ends() {
    let (upstream, house) = start().await;
    let (one, two) = (house.guest(1, DOLLAR), house.guest(2, DOLLAR));
    let with = |base: &Guest, token: &str| Guest {
        token: token.to_owned(),
        ..base.clone()
    };
    for stranger in [
        with(&one, &two.token),
        with(&one, ""),
        with(&one, &one.token[1..]),
        with(&one, KEY),
    ] {
        assert_eq!(stranger.hears("/v1/messages", ASK).await.0, 403);
    }
    let unknown = Guest {
        base: one.base.replace("/turn/1", "/turn/3"),
        ..one.clone()
    };
    assert_eq!(unknown.hears("/v1/messages", ASK).await.0, 403);
    house.meter.close(one.turn).unwrap();
    assert_eq!(one.hears("/v1/messages", ASK).await.0, 403);
    assert_eq!(house.meter.close(one.turn), None);
    assert!(!upstream.is_asked().await);
}

#[tokio::test]
async fn a_token_as_a_key_is_as_good_as_a_bearer() {
    let (upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let request = guest.client.post(format!("{}/v1/messages", guest.base));
    let answer = tokio::spawn(request.header("x-api-key", &guest.token).body(ASK).send());
    let asked = upstream.asked().await;
    assert_eq!(asked.header("x-api-key"), Some(KEY));
    asked.answer("200 OK", "", "{}").await;
    assert_eq!(answer.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn what_this_turn_may_not_use_is_refused_before_it_costs() {
    let (upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let table = [
        (ASK.replace("sonnet", "opus"), "claude-opus-5"),
        (ASK.replace("claude-sonnet-5", "gpt-5"), "gpt-5"),
        (
            ASK.replace("\"stream\":true", "\"speed\":\"fast\""),
            "speed",
        ),
        (ASK.replace("\"max_tokens\":1000,", ""), "max_tokens"),
        ("nonsense".to_owned(), "cannot be read"),
    ];
    for (body, why) in table {
        let (status, text) = guest.hears("/v1/messages", body).await;
        assert_eq!(status, 400, "{text}");
        assert!(
            text.contains(why) && text.starts_with(r#"{"type":"error""#),
            "{text}"
        );
    }
    let (status, _) = guest
        .hears("/v1/messages/count_tokens", r#"{"model":"claude-opus-5"}"#)
        .await;
    assert_eq!(status, 400);
    assert!(!upstream.is_asked().await);
    assert_eq!(house.meter.close(guest.turn).unwrap().spent, Usd::ZERO);
}

#[tokio::test]
async fn a_single_model_can_be_allowed_by_its_full_name() {
    let (upstream, house) = start().await;
    let guest = house.admit(&Lease {
        families: Some(vec!["claude-opus-4-8".into()]),
        ..lease(1, DOLLAR)
    });
    assert_eq!(
        guest
            .hears("/v1/messages", ASK.replace("sonnet-5", "opus-4-7"))
            .await
            .0,
        400
    );
    for model in ["opus-4-8", "opus-4-8-20260101"] {
        let answer = guest.asks(ASK.replace("sonnet-5", model));
        upstream.asked().await.answer("200 OK", "", "{}").await;
        assert_eq!(answer.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn somebody_to_whom_every_model_is_open_may_use_each_that_has_a_price() {
    let (upstream, house) = start().await;
    let guest = house.admit(&Lease {
        families: None,
        ..lease(1, DOLLAR)
    });
    for model in ["claude-mythos-1", "claude-haiku-4-5"] {
        let answer = guest.asks(ASK.replace("claude-sonnet-5", model));
        upstream.asked().await.answer("200 OK", "", "{}").await;
        assert_eq!(answer.await.unwrap().status(), 200);
    }
    let (status, _) = guest
        .hears("/v1/messages", ASK.replace("claude-sonnet-5", "gpt-5"))
        .await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_turn_without_a_list_may_use_whatever_has_a_price() {
    let (upstream, house) = start().await;
    let guest = house.admit(&Lease {
        families: None,
        ..lease(1, DOLLAR)
    });
    for model in ["opus-5", "haiku-4-5", "sonnet-5"] {
        let answer = guest.asks(ASK.replace("sonnet-5", model));
        upstream.asked().await.answer("200 OK", "", "{}").await;
        assert_eq!(answer.await.unwrap().status(), 200, "{model}");
    }
    let unknown = ASK.replace("claude-sonnet-5", "gpt-5");
    assert_eq!(guest.hears("/v1/messages", unknown).await.0, 400);
}

#[tokio::test]
async fn nothing_else_is_served() {
    let (upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    for path in [
        "/v1/files",
        "/v1/messages/batches",
        "/v1/complete",
        "/v1/messages/../files",
        "",
        "//v1/messages",
    ] {
        assert_eq!(guest.hears(path, ASK).await.0, 404, "{path}");
    }
    let greeting = guest.client.head(&guest.base).send().await.unwrap();
    assert_eq!(greeting.status(), 200);
    assert!(!upstream.is_asked().await);
}

#[tokio::test]
async fn counting_tokens_and_listing_models_costs_nothing() {
    let (upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let counting = tokio::spawn(
        guest
            .post(
                "/v1/messages/count_tokens",
                r#"{"model":"claude-sonnet-5"}"#,
            )
            .send(),
    );
    upstream
        .asked()
        .await
        .answer("200 OK", "", r#"{"input_tokens":9}"#)
        .await;
    assert_eq!(
        counting.await.unwrap().unwrap().text().await.unwrap(),
        r#"{"input_tokens":9}"#
    );
    let models = guest
        .client
        .get(format!("{}/v1/models", guest.base))
        .bearer_auth(&guest.token);
    let listing = tokio::spawn(models.send());
    upstream.asked().await.answer("200 OK", "", "{}").await;
    assert_eq!(listing.await.unwrap().unwrap().status(), 200);
    let closed = house.meter.close(guest.turn).unwrap();
    assert_eq!((closed.spent, closed.requests), (Usd::ZERO, 0));
}

#[tokio::test]
async fn errors_of_the_provider_pass_as_they_are_and_cost_nothing() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let headers = "content-type: application/json\r\nretry-after: 7\r\nanthropic-ratelimit-requests-remaining: 0\r\n";
    for status in [
        "400 Bad Request",
        "401 Unauthorized",
        "429 Too Many Requests",
        "500 Oops",
        "529 Overloaded",
    ] {
        let answer = guest.asks(ASK);
        upstream
            .asked()
            .await
            .answer(status, headers, r#"{"type":"error"}"#)
            .await;
        let answer = answer.await.unwrap();
        assert_eq!(answer.status().as_str(), &status[..3]);
        assert_eq!(answer.headers()["retry-after"], "7");
        assert_eq!(
            answer.headers()["anthropic-ratelimit-requests-remaining"],
            "0"
        );
        assert_eq!(answer.text().await.unwrap(), r#"{"type":"error"}"#);
    }
    assert_eq!(house.settles().await.spent, Usd::ZERO);
    let closed = house.meter.close(guest.turn).unwrap();
    assert_eq!((closed.spent, closed.estimated), (Usd::ZERO, false));
}

#[tokio::test]
async fn a_refused_key_is_told_once_until_it_is_taken_again() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    for status in ["401 No", "401 No", "200 OK", "401 No"] {
        let answer = guest.asks(ASK);
        upstream.asked().await.answer(status, "", "{}").await;
        answer.await.unwrap().text().await.unwrap();
    }
    let refused = |told: &[Told]| {
        told.iter()
            .filter(|news| **news == Told::KeyRefused)
            .count()
    };
    let told = house.hears(|told| refused(told) == 2).await;
    assert_eq!(refused(&told), 2);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (upstream, house) = start().await;
    let answer = house.guest(1, DOLLAR).asks(ASK);
    let location = format!("location: http://{}/elsewhere\r\n", upstream.address);
    upstream.asked().await.answer("307 Go", &location, "").await;
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), 502);
    assert!(!answer.headers().contains_key("location"));
    assert!(!upstream.is_asked().await);
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_costs_nothing() {
    let (upstream, house) = start().await;
    drop(upstream);
    let guest = house.guest(1, DOLLAR);
    let (status, text) = guest.hears("/v1/messages", ASK).await;
    assert_eq!(status, 502, "{text}");
    let closed = house.meter.close(guest.turn).unwrap();
    assert_eq!((closed.spent, closed.estimated), (Usd::ZERO, false));
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_refused_and_the_limit_told_once() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, Usd(3_000));
    for _ in 0..2 {
        let (status, text) = guest.hears("/v1/messages", ASK).await;
        assert_eq!(status, 400);
        assert!(text.contains("the limit of this turn is used up"), "{text}");
    }
    assert!(!upstream.is_asked().await);
    let told = house.hears(|told| !told.is_empty()).await;
    assert_eq!(told, [Told::Limit(guest.turn)]);
}

#[tokio::test]
async fn no_more_output_is_asked_for_than_fits() {
    let (upstream, house) = start().await;
    let prices = Prices::default();
    let price = prices.price_of("claude-sonnet-5").unwrap();
    let input = Ask::read(ASK.as_bytes()).unwrap().input_cost(price).round();
    let guest = house.guest(1, Usd(input.0 + 7_500));
    let answer = guest.asks(ASK);
    let asked = upstream.asked().await;
    assert_eq!(asked.json()["max_tokens"], 500);
    asked.answer("200 OK", "", "{}").await;
    answer.await.unwrap();
}

#[tokio::test]
async fn a_request_that_fits_only_beside_fewer_others_is_told_to_come_back() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, Usd(9_000));
    let first = guest.asks(ASK);
    let asked = upstream.asked().await;
    let second = guest.post("/v1/messages", ASK).send().await.unwrap();
    assert_eq!(second.status(), 429);
    assert_eq!(second.headers()["retry-after"], "1");
    let text = r#"{"content":[],"usage":{"input_tokens":10,"output_tokens":2}}"#;
    asked.answer("200 OK", "", text).await;
    first.await.unwrap().bytes().await.unwrap();
    house.settles().await;
    let again = guest.asks(ASK);
    upstream.asked().await.answer("200 OK", "", text).await;
    assert_eq!(again.await.unwrap().status(), 200);
    assert!(
        !house
            .told
            .borrow()
            .iter()
            .any(|told| matches!(told, Told::Limit(_)))
    );
}

#[tokio::test]
async fn all_answers_of_a_turn_are_cut_when_its_hold_is_used_up() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, Usd(20_000));
    let mut asked = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let answer = guest.asks(ASK);
        asked.push(upstream.asked().await);
        asked.last_mut().unwrap().begin(1000).await;
        answers.push(answer.await.unwrap());
    }
    asked[0].text(&"words ".repeat(900)).await;
    for answer in answers {
        assert!(
            answer.bytes().await.is_err(),
            "the piece was taken for the whole"
        );
    }
    for asked in &mut asked {
        asked.is_left().await;
    }
    house
        .hears(|told| told.contains(&Told::Limit(guest.turn)))
        .await;
    let charge = house.settles().await;
    assert!(charge.estimated && charge.spent > Usd(20_000), "{charge:?}");
    assert_eq!(guest.hears("/v1/messages", ASK).await.0, 400);
    assert_eq!(house.meter.close(guest.turn).unwrap().spent, charge.spent);
}

#[tokio::test]
async fn an_answer_that_is_complete_is_not_cut_for_what_it_cost() {
    let (upstream, house) = start().await;
    let guest = house.guest(1, Usd(20_000));
    let answer = guest.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(3000).await;
    asked.end(999).await;
    assert!(
        answer
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
            .ends_with("\"message_stop\"}\n\n")
    );
    assert_eq!(
        house.meter.close(guest.turn).unwrap().spent,
        Usd(9_000 + 14_985)
    );
}

#[tokio::test]
async fn the_end_of_a_turn_cuts_its_answers_and_counts_what_was_seen() {
    let (upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(1000).await;
    let mut answer = answer.await.unwrap();
    answer.chunk().await.unwrap().unwrap();
    asked.text("123456789").await;
    answer.chunk().await.unwrap().unwrap();
    let closed = house.meter.close(guest.turn).unwrap();
    assert_eq!((closed.spent, closed.estimated), (Usd(3_000 + 45), true));
    assert!(answer.chunk().await.is_err());
    asked.is_left().await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_any_more_is_still_counted_to_its_end() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(1000).await;
    drop(answer.await.unwrap());
    drop(guest);
    for _ in 0..50 {
        asked.text(&"words ".repeat(1000)).await;
    }
    asked.end(700).await;
    let charge = house.settles().await;
    assert_eq!(
        (charge.spent, charge.estimated),
        (Usd(3_000 + 10_500), false)
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_passed_as_broken_and_estimated() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(1000).await;
    asked.text("123456789").await;
    drop(asked);
    assert!(answer.await.unwrap().bytes().await.is_err());
    let charge = house.settles().await;
    assert_eq!((charge.spent, charge.estimated), (Usd(3_045), true));
}

#[tokio::test]
async fn too_many_requests_at_once_are_told_to_come_back() {
    let (upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let mut open = Vec::new();
    for _ in 0..SEATS {
        let answer = guest.asks(ASK);
        open.push((upstream.asked().await, answer));
    }
    let answer = guest.post("/v1/messages", ASK).send().await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "1");
    let other = house.guest(2, DOLLAR).asks(ASK);
    upstream.asked().await.answer("200 OK", "", "{}").await;
    assert_eq!(
        other.await.unwrap().status(),
        200,
        "another turn must not wait for this one"
    );
    for (asked, answer) in open {
        asked
            .answer("200 OK", "", r#"{"usage":{"output_tokens":1}}"#)
            .await;
        answer.await.unwrap().bytes().await.unwrap();
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let (upstream, house) = start().await;
    let address = house.meter.address();
    let guest = house.guest(1, DOLLAR);
    let mut raw = tokio::net::TcpStream::connect(address).await.unwrap();
    let size = 33 * 1024 * 1024;
    let head = format!(
        "POST /turn/1/v1/messages HTTP/1.1\r\nhost: m\r\nx-api-key: {}\r\ncontent-length: {size}\r\n\r\n",
        guest.token
    );
    raw.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = raw.into_split();
    let sending = tokio::spawn(async move {
        let piece = vec![b' '; 64 * 1024];
        while write.write_all(&piece).await.is_ok() {}
    });
    let mut answer = [0; 12];
    read.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    drop(read);
    sending.await.unwrap();
    assert!(!upstream.is_asked().await);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let (_upstream, house) = start().await;
    let raw = tokio::net::TcpStream::connect(house.meter.address())
        .await
        .unwrap();
    let (mut read, mut write) = raw.into_split();
    let sending = tokio::spawn(async move {
        let head = format!("POST / HTTP/1.1\r\nx-long: {}", "x".repeat(500_000));
        let _ = write.write_all(head.as_bytes()).await;
        write
    });
    let mut answer = [0; 12];
    read.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
    sending.await.unwrap();
}

/// The clock stands still and jumps ahead whenever nothing else can happen: a wait of a minute is over at once.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_is_not_waited_for() {
    let (_upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let mut raw = tokio::net::TcpStream::connect(house.meter.address())
        .await
        .unwrap();
    let head = format!(
        "POST /turn/1/v1/messages HTTP/1.1\r\nhost: m\r\nx-api-key: {}\r\ncontent-length: 9\r\n\r\n",
        guest.token
    );
    raw.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    raw.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

/// Once a request is with the provider the clock jumps ahead whenever nothing else can happen.
#[tokio::test]
async fn a_provider_that_says_nothing_is_given_up_and_what_it_may_have_cost_is_estimated() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK);
    let _silent = upstream.asked().await;
    tokio::time::pause();
    assert_eq!(answer.await.unwrap().status(), 502);
    let charge = house.settles().await;
    assert!(charge.estimated && charge.spent > Usd::ZERO, "{charge:?}");
}

#[tokio::test]
async fn an_answer_that_falls_silent_is_passed_as_broken_and_estimated() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(1000).await;
    asked.text("123456789").await;
    let mut answer = answer.await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\"123456789\"}}\n\n") {
        seen.extend_from_slice(&answer.chunk().await.unwrap().unwrap());
    }
    tokio::time::pause();
    assert!(answer.bytes().await.is_err());
    let charge = house.settles().await;
    assert_eq!((charge.spent, charge.estimated), (Usd(3_045), true));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_never_comes_is_not_waited_for() {
    let (_upstream, house) = start().await;
    let mut raw = tokio::net::TcpStream::connect(house.meter.address())
        .await
        .unwrap();
    raw.write_all(b"POST /turn/1/v1/messages HTTP/1.1\r\nhost: m\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _ = raw.read_to_end(&mut rest).await;
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"));
}

#[tokio::test]
async fn a_lease_survives_a_restart_with_its_token_and_its_count() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(1000).await;
    answer.await.unwrap().chunk().await.unwrap().unwrap();
    let told = house
        .hears(|told| matches!(told.last(), Some(Told::Charged(_))))
        .await;
    let Some(Told::Charged(stored)) = told.last().cloned() else {
        panic!("{told:?}");
    };
    assert_eq!(
        (stored.spent, stored.open_worst),
        (Usd::ZERO, Usd(3_000 + 15_000))
    );

    // The bot dies here: nothing more is stored. Another one opens the lease again.
    let mut again = House::start(&upstream.url()).await;
    let same = again.admit(&Lease {
        spent: stored.spent + stored.open_worst,
        estimated: true,
        token: Some(guest.token.clone().into()),
        ..lease(1, DOLLAR)
    });
    assert_eq!(same.token, guest.token);
    let answer = same.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(10).await;
    asked.end(1).await;
    answer.await.unwrap().bytes().await.unwrap();
    let charge = again.settles().await;
    assert_eq!((charge.spent, charge.estimated), (Usd(18_000 + 45), true));
}

#[tokio::test]
async fn opening_an_open_lease_changes_nothing() {
    let (_upstream, house) = start().await;
    let (first, second) = (house.guest(1, DOLLAR), house.guest(1, Usd(5)));
    assert_eq!(first.token, second.token);
    assert_ne!(first.token, house.guest(2, DOLLAR).token);
}

#[tokio::test]
async fn when_the_bot_stops_open_answers_are_counted_as_far_as_they_came_and_all_tasks_end() {
    let (upstream, mut house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let answer = guest.asks(ASK);
    let mut asked = upstream.asked().await;
    asked.begin(1000).await;
    let mut answer = answer.await.unwrap();
    answer.chunk().await.unwrap().unwrap();
    house.stop.cancel();
    house.tracker.close();
    house.tracker.wait().await;
    assert!(answer.chunk().await.is_err());
    let charge = house.settles().await;
    assert_eq!((charge.spent, charge.estimated), (Usd(3_015), true));
}

#[tokio::test]
async fn neither_key_nor_token_is_shown() {
    let (_upstream, house) = start().await;
    let guest = house.guest(1, DOLLAR);
    let shown = format!(
        "{:?} {:?}",
        house.meter,
        house.meter.open(lease(1, DOLLAR)).unwrap()
    );
    assert!(
        !shown.contains(KEY) && !shown.contains(&guest.token),
        "{shown}"
    );
}
