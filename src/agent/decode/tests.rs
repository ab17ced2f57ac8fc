use proptest::prelude::*;

use super::super::lines::Lines;
use super::*;

/// More than any recorded line has.
const MOST: usize = 64 * 1024;

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/stream-json");
    let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

fn fixture(name: &str) -> Vec<Event> {
    let (_, bytes) = fixtures().into_iter().find(|(n, _)| n == name).unwrap();
    events(&[&bytes])
}

fn events(pieces: &[&[u8]]) -> Vec<Event> {
    let mut lines = Lines::new(MOST);
    let mut found: Vec<Line> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
    found.extend(lines.finish());
    found.iter().flat_map(decode).collect()
}

fn line(text: &str) -> Vec<Event> {
    decode(&Line::Whole(text.as_bytes().to_vec()))
}

/// One word or two for each event; what is unknown is left out.
fn brief(event: &Event) -> Option<String> {
    let told = match event {
        Event::Init(init) => format!("init({})", init.permission_mode),
        Event::Text { parent: None, text } => format!("text:{}", text.chars().count()),
        Event::Text { .. } => "sub-text".to_owned(),
        Event::TextDelta(_) => "delta".to_owned(),
        Event::Thinking => "thinking".to_owned(),
        Event::ToolStarted(call) if call.parent.is_some() => format!("sub+{}", call.name),
        Event::ToolStarted(call) => format!("+{}", call.name),
        Event::ToolEnded { failed, .. } => if *failed { "✗" } else { "✓" }.to_owned(),
        Event::Echo { text, .. } => format!("echo:{}", text.chars().count()),
        Event::Permission(asked) => format!("asks:{}", asked.tool),
        Event::Retry {
            attempt,
            of,
            status,
            ..
        } => format!("retry:{attempt}/{of}:{}", status.unwrap_or(0)),
        Event::ModelChanged { to } => format!("model:{to}"),
        Event::Compacted => "compacted".to_owned(),
        Event::Result(outcome) => result(outcome),
        Event::Used(_) | Event::Unknown { .. } => return None,
        Event::Unreadable => "UNREADABLE".to_owned(),
        Event::TooLong { .. } => "TOO LONG".to_owned(),
    };
    Some(told)
}

fn result(outcome: &Outcome) -> String {
    let mut told = format!(
        "[{} {} {} {}",
        if outcome.is_error { "ERROR" } else { "ok" },
        outcome.subtype,
        outcome.terminal_reason.as_deref().unwrap_or("-"),
        outcome.total_cost
    );
    if let Some(status) = outcome.api_status {
        told += &format!(" status {status}");
    }
    if let Some(origin) = &outcome.origin {
        told += &format!(" from {origin}");
    }
    if !outcome.denied.is_empty() {
        told += &format!(" denied {}", outcome.denied.join(","));
    }
    told + "]"
}

#[test]
fn every_recorded_stream_says_what_its_description_says() {
    let told: String = fixtures()
        .iter()
        .map(|(name, bytes)| {
            let words: Vec<String> = events(&[bytes]).iter().filter_map(brief).collect();
            format!("{name}: {}\n", words.join(" "))
        })
        .collect();
    insta::assert_snapshot!(told, @r#"
    api_error_400: init(dontAsk) [ERROR success completed $0.00 status 400]
    api_error_400_credit: init(dontAsk) [ERROR success completed $0.00 status 400]
    api_error_401: init(dontAsk) retry:1/2:401 retry:2/2:401 [ERROR success completed $0.00 status 401]
    api_error_403: init(dontAsk) [ERROR success completed $0.00 status 403]
    api_error_404_model: init(dontAsk) [ERROR success completed $0.00 status 404]
    api_error_413: init(dontAsk) [ERROR success image_error $0.00 status 413]
    api_error_429: init(dontAsk) retry:1/2:429 retry:2/2:429 [ERROR success completed $0.00 status 429]
    api_error_500: init(dontAsk) retry:1/2:500 retry:2/2:500 [ERROR success completed $0.00 status 500]
    api_error_529: init(dontAsk) retry:1/2:529 retry:2/2:529 [ERROR success completed $0.00 status 529]
    api_error_midrun: init(dontAsk) text:8 +Bash ✓ retry:1/2:500 retry:2/2:500 [ERROR success completed $0.0048 status 500]
    api_retry_then_ok: init(dontAsk) retry:1/2:529 text:9 [ok success completed $0.0048]
    api_stream_cut: init(dontAsk) text:12 [ok success completed $0.00]
    api_stream_error: init(dontAsk) text:12 [ERROR success completed $0.00]
    bash_background: init(dontAsk) +Bash ✓ text:29 [ok success completed $0.0096] init(dontAsk) text:16 [ok success completed $0.0144 from task-notification]
    bash_background_long: init(dontAsk) +Bash ✓ text:29 [ok success completed $0.0096]
    bash_long_output: init(dontAsk) +Bash ✓ text:2 [ok success completed $0.0096]
    bash_long_progress: init(dontAsk) +Bash ✓ text:1 [ok success completed $0.0096]
    bash_timeout: init(dontAsk) +Bash ✓ text:1 [ok success completed $0.0096]
    bash_timeout_nobg: init(dontAsk) +Bash ✗ text:1 [ok success completed $0.0096]
    compact_command: init(dontAsk) compacted echo:55 [ok success - $0.0048]
    denied_dontask: init(dontAsk) +Write ✗ +Read ✗ +Bash ✗ +WebFetch ✗ text:21 [ok success completed $0.0240 denied Write,Bash,WebFetch]
    empty_answer: init(dontAsk) text:3 [ok success completed $0.0096]
    fallback_model: init(dontAsk) retry:1/4:529 retry:2/4:529 model:claude-sonnet-5 text:17 [ok success completed $0.0144]
    hook_deny: init(dontAsk) +Bash ✗ text:7 [ok success completed $0.0096 denied Bash]
    input_stream_interrupt: init(dontAsk) text:7 +Bash ✗ [ERROR error_during_execution aborted_tools $0.0048] init(dontAsk) text:9 [ok success completed $0.0096]
    input_stream_midrun: init(dontAsk) text:7 +Bash ✓ text:10 [ok success completed $0.0096]
    input_stream_replay: init(dontAsk) echo:5 text:3 [ok success completed $0.0048]
    input_stream_two_turns: init(dontAsk) text:10 [ok success completed $0.0048] init(dontAsk) text:10 [ok success completed $0.0096]
    json_schema: init(dontAsk) +StructuredOutput ✓ [ok success completed $0.0048]
    killed_sigint: init(dontAsk) text:9 +Bash ✗ [ERROR error_during_execution aborted_tools $0.0048]
    killed_sigint_streaming: init(dontAsk) text:160 [ERROR error_during_execution aborted_streaming $0.00]
    killed_sigkill: init(dontAsk) text:9 +Bash
    killed_sigterm: init(dontAsk) text:9 +Bash
    max_budget: init(dontAsk) +Bash ✓ +Bash ✓ +Bash [ERROR error_max_budget_usd - $0.3114]
    max_turns: init(dontAsk) +Bash ✓ +Bash ✓ +Bash ✓ [ERROR error_max_turns max_turns $0.0144]
    mcp_tool: init(dontAsk) +mcp__demo__ask ✓ text:4 [ok success completed $0.0096]
    network_refused: init(dontAsk) retry:1/2:0 retry:2/2:0 [ERROR success completed $0.00]
    no_api_key: init(dontAsk) [ERROR success completed $0.00]
    parallel_tools: init(dontAsk) text:14 +Bash +Read +Bash +Bash ✓ ✓ ✗ ✓ text:4 [ok success completed $0.0096]
    partial_messages: init(dontAsk) thinking thinking delta delta delta delta text:46 +Bash ✓ delta text:4 [ok success completed $0.0096]
    permission_prompt_stdio: init(default) +Bash asks:Bash ✓ +Write asks:Write ✗ +AskUserQuestion asks:AskUserQuestion ✓ text:4 [ok success completed $0.0192 denied Write]
    plugin_skill: init(dontAsk) +Skill ✓ +Read ✗ text:4 [ok success completed $0.0144 denied Read]
    prompt_too_long: init(dontAsk) [ERROR success prompt_too_long $0.00 status 400]
    rate_limit_event: init(dontAsk) text:2 [ok success completed $0.0048]
    rate_limit_rejected: init(dontAsk) [ERROR success completed $0.00 status 429]
    read_image: init(dontAsk) +Read ✓ text:13 [ok success completed $0.0096]
    resume_bad_id: [ERROR error_during_execution - $0.00]
    resume_fork: init(dontAsk) text:14 [ok success completed $0.0048]
    resume_ok: init(dontAsk) text:14 [ok success completed $0.0048]
    resume_unknown: [ERROR error_during_execution - $0.00]
    schedule_wakeup: init(bypassPermissions) +ScheduleWakeup ✓ text:9 [ok success completed $0.0096]
    session_first: init(dontAsk) text:13 [ok success completed $0.0048]
    slash_compact: init(dontAsk) [ok success - $0.00]
    slash_context: init(dontAsk) [ok success - $0.00]
    slash_unknown: init(dontAsk) [ok success - $0.00]
    stop_max_tokens: init(dontAsk) text:12 text:12 text:12 text:12 [ERROR success completed $0.0192]
    stop_refusal: init(dontAsk) [ERROR success completed $0.0048]
    subagent: init(dontAsk) text:16 +Agent sub+Bash ✓ ✓ text:23 [ok success completed $0.0192]
    subagents_parallel: init(dontAsk) +Agent +Agent ✓ sub+Bash sub+Bash ✓ ✓ sub-text ✓ text:13 [ok success completed $0.0288]
    text_simple: init(dontAsk) text:22 [ok success completed $0.0048]
    thinking: init(dontAsk) thinking text:10 [ok success completed $0.0048]
    tool_bash: init(dontAsk) text:12 +Bash ✓ text:5 [ok success completed $0.0096]
    tool_errors: init(dontAsk) +Bash ✗ +Read ✗ +NoSuchTool ✗ +Edit ✗ text:13 [ok success completed $0.0240]
    tool_task_list: init(dontAsk) +TaskCreate +TaskCreate ✓ ✓ +TaskUpdate ✓ +TaskList ✓ +TaskUpdate ✓ text:2 [ok success completed $0.0240]
    tool_write_edit_read: init(dontAsk) +Write ✓ +Edit ✓ +Read ✓ text:27 [ok success completed $0.0192]
    unicode_long: init(dontAsk) text:3047 +Bash ✓ text:27 [ok success completed $0.0096]
    "#);
}

#[test]
fn every_recorded_stream_decodes_alike_wherever_it_is_cut() {
    for (name, bytes) in fixtures() {
        let whole = events(&[&bytes]);
        // Cuts near line ends matter most; elsewhere they are tried thinner.
        let near = |at: usize| {
            let around = at.saturating_sub(3)..(at + 3).min(bytes.len());
            bytes[around].contains(&b'\n')
        };
        for at in (0..=bytes.len()).filter(|at| near(*at) || at % 89 == 0) {
            assert_eq!(
                events(&[&bytes[..at], &bytes[at..]]),
                whole,
                "{name} cut at {at}"
            );
        }
    }
}

#[test]
fn a_small_stream_decodes_alike_cut_at_every_byte() {
    for name in ["resume_unknown", "resume_bad_id"] {
        let (_, bytes) = fixtures().into_iter().find(|(n, _)| n == name).unwrap();
        let whole = events(&[&bytes]);
        for at in 0..=bytes.len() {
            assert_eq!(events(&[&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
        }
    }
}

#[test]
fn an_error_written_in_the_agents_name_is_no_text_of_the_agent() {
    let found = fixture("api_error_401");
    assert!(
        !found
            .iter()
            .any(|event| matches!(event, Event::Text { .. }))
    );
    let Some(Event::Result(outcome)) = found.last() else {
        panic!("{found:?}");
    };
    assert!(outcome.is_error);
    assert_eq!(outcome.text, "Invalid API key · Fix external API key");
    assert_eq!(outcome.api_status, Some(401));
}

#[test]
fn what_an_answer_used_is_told_with_its_blocks_and_at_its_end() {
    let told: Vec<(bool, u64, u64, u64, u64)> = fixture("partial_messages")
        .into_iter()
        .filter_map(|event| match event {
            Event::Used(used) => Some((
                used.answer.is_some() && used.model.is_some(),
                used.tokens.input,
                used.tokens.cache_write,
                used.tokens.cache_read,
                used.tokens.output,
            )),
            _ => None,
        })
        .collect();
    let (early, last) = ((true, 1000, 2000, 3000, 1), (false, 1000, 2000, 3000, 200));
    assert_eq!(told, [early, early, early, early, last, early, early, last]);
    let sub = fixture("subagent");
    let sub = sub.iter().filter(
        |event| matches!(event, Event::Used(used) if used.parent.is_some() && !used.tokens.is_none()),
    );
    assert_eq!(sub.count(), 1);
}

#[test]
fn an_unknown_session_is_told_by_the_result_alone() {
    let found = fixture("resume_unknown");
    let [Event::Result(outcome)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(outcome.is_error);
    assert_eq!(
        outcome.errors,
        ["No conversation found with session ID: 99999999-9999-4999-8999-999999999999"]
    );
}

#[test]
fn an_echo_carries_the_id_that_was_fed_in() {
    let echo = fixture("input_stream_replay")
        .into_iter()
        .find(|event| matches!(event, Event::Echo { .. }));
    assert_eq!(
        echo,
        Some(Event::Echo {
            id: Some("33333333-3333-4333-8333-333333333333".to_owned()),
            text: "hello".to_owned()
        })
    );
}

#[test]
fn parallel_results_name_the_calls_they_belong_to() {
    let found = fixture("parallel_tools");
    let mut started: Vec<&ToolId> = Vec::new();
    let mut ended: Vec<&ToolId> = Vec::new();
    for event in &found {
        match event {
            Event::ToolStarted(call) => started.push(&call.id),
            Event::ToolEnded { id, .. } => ended.push(id),
            _ => {}
        }
    }
    assert_eq!(started.len(), 4);
    assert_ne!(started, ended);
    assert!(ended.iter().all(|id| started.contains(id)));
}

#[test]
fn a_picture_in_a_result_is_only_named() {
    let output = fixture("read_image")
        .into_iter()
        .find_map(|event| match event {
            Event::ToolEnded { output, .. } => Some(output),
            _ => None,
        });
    assert_eq!(output.as_deref(), Some("[image]"));
}

#[test]
fn a_long_output_is_bounded_between_characters() {
    let long = "é".repeat(OUTPUT);
    let text = serde_json::json!({"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t", "content": long}]}});
    let found = line(&text.to_string());
    let [Event::ToolEnded { output, .. }] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(output.len() <= OUTPUT && output.len() > OUTPUT - 8);
    assert!(output.ends_with("é…"));
}

#[test]
fn half_an_emoji_spoils_neither_the_line_nor_its_neighbours() {
    let found = line(
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"a\ud83d b\\ud83d \ud83d\ude00 \ude00\ud83d"}]}}"#,
    );
    assert_eq!(
        found,
        [Event::Text {
            text: "a\u{fffd} b\\ud83d 😀 \u{fffd}\u{fffd}".to_owned(),
            parent: None
        }]
    );
}

#[test]
fn fields_of_the_wrong_type_count_as_absent() {
    for (text, expected) in [
        (
            r#"{"type":7,"subtype":[]}"#,
            Event::Unknown {
                kind: "untyped".to_owned(),
            },
        ),
        (
            r#"{"type":"system","subtype":"api_retry","attempt":"x","retry_delay_ms":-1e300,"error_status":99999}"#,
            Event::Retry {
                attempt: 1,
                of: 0,
                wait: Duration::ZERO,
                status: None,
            },
        ),
        (
            r#"{"type":"assistant","message":{"content":[3,{"type":"text"},{"type":"tool_use"},null]}}"#,
            Event::Unknown {
                kind: "assistant".to_owned(),
            },
        ),
        (
            r#"{"type":"user","message":"x","isReplay":true}"#,
            Event::Unknown {
                kind: "user".to_owned(),
            },
        ),
        ("[1]", Event::Unreadable),
        ("{\"type\":\"result\"", Event::Unreadable),
    ] {
        assert_eq!(line(text), [expected], "{text}");
    }
}

#[test]
fn a_result_that_says_nothing_is_an_error_without_cost() {
    let found = line(r#"{"type":"result","is_error":"no","total_cost_usd":"1","errors":[1,"e"]}"#);
    let [Event::Result(outcome)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(outcome.is_error);
    assert_eq!(outcome.total_cost, Usd::ZERO);
    assert_eq!(outcome.errors, ["e"]);
}

#[test]
fn a_cost_is_rounded_to_the_nearest_millionth() {
    for (dollars, micros) in [
        ("0.0048000000000000004", 4800),
        ("0.0000005", 1),
        ("1e-9", 0),
        ("2", 2_000_000),
    ] {
        let found = line(&format!(
            r#"{{"type":"result","subtype":"success","total_cost_usd":{dollars}}}"#
        ));
        let [Event::Result(outcome)] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(outcome.total_cost, Usd(micros), "{dollars}");
    }
}

#[test]
fn a_line_too_long_still_ends_the_tool_it_was_the_output_of() {
    let text = format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"toolu_1","type":"tool_result","content":"{}"}}]}}}}"#,
        "x".repeat(2 * MOST)
    );
    let found = events(&[text.as_bytes()]);
    assert_eq!(
        found[0],
        Event::TooLong {
            bytes: text.len() as u64,
            kind: Some("user".to_owned())
        }
    );
    assert!(
        matches!(&found[1], Event::ToolEnded { id, failed: false, .. } if id.0 == "toolu_1"),
        "{found:?}"
    );
}

#[test]
fn an_id_quoted_inside_a_long_text_ends_no_tool() {
    let quoted = serde_json::to_string(&format!(
        "{{\"tool_use_id\":\"toolu_1\"}}{}",
        "x".repeat(MOST)
    ))
    .unwrap();
    let text = format!(r#"{{"type":"user","message":{{"content":{quoted}}}}}"#);
    assert_eq!(events(&[text.as_bytes()]).len(), 1);
}

/// Values made of the words that the stream is made of, in places where they do not belong.
fn odd_value() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "type",
        "subtype",
        "assistant",
        "user",
        "system",
        "init",
        "result",
        "message",
        "content",
        "text",
        "tool_use",
        "tool_result",
        "tool_use_id",
        "id",
        "name",
        "input",
        "event",
        "delta",
        "request",
        "can_use_tool",
        "tools",
        "control_request",
        "stream_event",
        "permission_denials",
        "errors",
        "origin",
        "kind",
        "total_cost_usd",
        "duration_ms",
        "uuid",
        "isReplay",
        "api_retry",
        "is_error",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..8).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_gives_an_event_and_no_panic(value in odd_value(), kind in prop::sample::select(vec![
        "assistant", "user", "system", "result", "stream_event", "control_request"])) {
        let mut value = value;
        if let Value::Object(fields) = &mut value {
            fields.insert("type".to_owned(), kind.into());
        }
        let found = line(&value.to_string());
        prop_assert!(!found.is_empty());
        prop_assert_eq!(value.is_object(), found != [Event::Unreadable]);
    }

    #[test]
    fn any_bytes_give_an_event_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
        prop_assert!(!decode(&Line::Whole(bytes)).is_empty());
    }

    #[test]
    fn mending_leaves_sound_json_as_it_is(text in any::<String>()) {
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let json = format!("\"{escaped}\"");
        prop_assert_eq!(mend_surrogates(json.as_bytes()), json.as_bytes());
    }
}
