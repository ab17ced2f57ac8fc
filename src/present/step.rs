//! One step in one line, and a step's input in full.

use serde_json::Value;

use crate::turn::work::Step;

use super::plain;
use super::secrets::scrub;

/// Code points of a preview.
const PREVIEW: usize = 120;
/// Code points of one value where a tool has no field of its own to show.
const VALUE: usize = 40;

/// Returns the field that tells most about a call of this tool, and the language its text is shown in.
fn primary(tool: &str) -> Option<(&'static str, &'static str)> {
    match tool {
        "Bash" => Some(("command", "bash")),
        "Read" | "Write" | "Edit" => Some(("file_path", "text")),
        "NotebookEdit" => Some(("notebook_path", "text")),
        "Glob" | "Grep" => Some(("pattern", "text")),
        "WebSearch" => Some(("query", "text")),
        "WebFetch" => Some(("url", "text")),
        "Agent" | "Task" => Some(("description", "text")),
        "Skill" => Some(("skill", "text")),
        _ => None,
    }
}

/// Returns the step as one line of Discord text: the tool, then what it is about, at most 120 code points of it.
pub fn label(step: &Step, secrets: &[String]) -> String {
    let tool = plain::escape(&plain::cut(&plain::one_line(&step.tool), VALUE));
    let about = preview(step, secrets);
    if about.is_empty() {
        tool
    } else {
        format!("{tool}: {}", plain::escape(&about))
    }
}

fn preview(step: &Step, secrets: &[String]) -> String {
    let field = match step.tool.as_str() {
        "AskUserQuestion" => step.input.pointer("/questions/0/question"),
        tool => primary(tool).and_then(|(field, _)| step.input.get(field)),
    };
    // Secrets go before anything is cut: half of one would not be found any more.
    let raw = match (field, &step.input) {
        (Some(value), _) => scrub(&text_of(value), secrets),
        (None, Value::Object(fields)) => fields
            .iter()
            .take(2)
            .map(|(name, value)| {
                let value = scrub(&text_of(value), secrets);
                format!("{name}={}", plain::cut(&plain::one_line(&value), VALUE))
            })
            .collect::<Vec<_>>()
            .join(", "),
        _ => String::new(),
    };
    let mut lines = raw.lines().filter(|line| !line.trim().is_empty());
    let first = plain::one_line(lines.next().unwrap_or_default());
    let more = if lines.next().is_some() { " …" } else { "" };
    plain::cut(&format!("{first}{more}"), PREVIEW)
}

/// Returns the step's whole input as fenced blocks: its main field in its own language, the rest as JSON.
pub fn input(step: &Step) -> String {
    let fields = match &step.input {
        Value::Object(fields) if !fields.is_empty() => fields,
        Value::Null | Value::Object(_) => return fence("text", "(no input)"),
        other => return fence("json", &pretty(other)),
    };
    let Some((field, language)) = primary(&step.tool) else {
        return fence("json", &pretty(&step.input));
    };
    let Some(main) = fields.get(field) else {
        return fence("json", &pretty(&step.input));
    };
    let mut blocks = fence(language, &text_of(main));
    let rest: serde_json::Map<_, _> = fields
        .iter()
        .filter(|(name, _)| *name != field)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !rest.is_empty() {
        blocks.push('\n');
        blocks.push_str(&fence("json", &pretty(&Value::Object(rest))));
    }
    blocks
}

/// Returns the text in a fence that is longer than any in it.
pub(super) fn fence(language: &str, text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let marks = "`".repeat(longest.saturating_add(1).max(3));
    format!(
        "{marks}{language}\n{}\n{marks}\n",
        text.trim_end_matches('\n')
    )
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::event::ToolId;
    use crate::domain::time::Moment;

    fn step(tool: &str, input: Value) -> Step {
        Step {
            id: ToolId("a".into()),
            tool: tool.into(),
            input,
            parent: None,
            since: Moment(0),
            end: None,
        }
    }

    #[test]
    fn every_tool_shows_what_it_is_about() {
        let cases = [
            (
                "Bash",
                json!({"command": "python plot.py", "timeout": 5}),
                "Bash: python plot.py",
            ),
            ("Bash", json!({"command": "\ncd x\nls"}), "Bash: cd x …"),
            (
                "Write",
                json!({"file_path": "a/my_plot.py", "content": "x"}),
                "Write: a/my_plot.py",
            ),
            (
                "Agent",
                json!({"description": "Count files", "prompt": "…"}),
                "Agent: Count files",
            ),
            (
                "WebFetch",
                json!({"url": "https://a.example/_x_"}),
                r"WebFetch: https://a.example/\_x\_",
            ),
            (
                "mcp__db__ask",
                json!({"table": "t", "limit": 5, "z": 1}),
                r"mcp\_\_db\_\_ask: table=t, limit=5",
            ),
            (
                "AskUserQuestion",
                json!({"questions": [{"question": "Which colour?"}]}),
                "AskUserQuestion: Which colour?",
            ),
            ("Bash", json!({}), "Bash"),
            ("Bash", json!("odd"), "Bash"),
            (
                "Bash",
                json!({"command": "echo `*x*` <@1> ||y||"}),
                r"Bash: echo \`\*x\*\` \<@1\> \|\|y\|\|",
            ),
        ];
        for (tool, input, wanted) in cases {
            assert_eq!(label(&step(tool, input), &[]), wanted);
        }
    }

    #[test]
    fn a_long_command_is_cut_and_a_secret_in_it_does_not_show_by_halves() {
        let secret = "s_e_c_r_e_t_".repeat(10);
        let command = format!("{} {secret}", "x".repeat(100));
        let shown = label(&step("Bash", json!({"command": command})), &[secret]);
        assert_eq!(shown, format!("Bash: {} \\[hidden\\]", "x".repeat(100)));
        let long = label(&step("Bash", json!({"command": "é".repeat(500)})), &[]);
        assert_eq!(long.chars().count(), "Bash: ".len() + PREVIEW);
    }

    #[test]
    fn the_whole_input_is_fenced_by_its_language() {
        let run = step("Bash", json!({"command": "echo ```", "timeout": 5}));
        insta::assert_snapshot!(input(&run), @r#"
        ````bash
        echo ```
        ````

        ```json
        {
          "timeout": 5
        }
        ```
        "#);
        assert_eq!(
            input(&step("Bash", json!({}))),
            "```text\n(no input)\n```\n"
        );
        assert_eq!(
            input(&step("Odd", json!({"a": 1}))),
            "```json\n{\n  \"a\": 1\n}\n```\n"
        );
    }
}
