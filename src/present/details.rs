//! Every step of a turn, as a Markdown file that only the presser sees.

use crate::turn::machine::Turn;
use crate::turn::work::Step;

use super::live::receipt;
use super::notice;
use super::plain::{cut, one_line};
use super::secrets::scrub;
use super::step::{fence, input};
use super::units::duration;

/// Code points of a project's title or a tool's name.
const NAME: usize = 60;

/// Returns all steps with their input, their output and their failures. Secrets are taken out of the whole text.
pub fn details(turn: &Turn) -> String {
    let facts = turn.facts();
    let mut text = format!(
        "# Turn {} · {}\n\n{}\n",
        facts.id,
        cut(&one_line(&facts.title), NAME),
        receipt(turn).trim_start_matches("-# ")
    );
    let (booked, _) = turn.cost();
    if let Some(reported) = turn.reported().filter(|reported| *reported != booked) {
        text.push_str(&format!("\n{}\n", notice::counts_differ(booked, reported)));
    }
    let roots = turn
        .work()
        .steps()
        .iter()
        .filter(|step| !is_nested(turn, step));
    for (index, step) in roots.enumerate() {
        write_step(&mut text, turn, step, &(index + 1).to_string());
    }
    scrub(&text, &facts.secrets.0)
}

/// A step is nested where the step that it belongs to is known.
fn is_nested(turn: &Turn, step: &Step) -> bool {
    let steps = turn.work().steps();
    let before = steps.iter().take_while(|other| other.id != step.id);
    step.parent
        .as_ref()
        .is_some_and(|parent| before.into_iter().any(|other| other.id == *parent))
}

fn write_step(text: &mut String, turn: &Turn, step: &Step, number: &str) {
    text.push_str(&format!(
        "\n## {number}. {} {}\n\n{}",
        cut(&one_line(&step.tool), NAME),
        how_it_ended(step),
        input(step)
    ));
    if let Some(end) = &step.end
        && !end.output.trim().is_empty()
    {
        let title = if end.failed { "Failure" } else { "Output" };
        text.push_str(&format!("\n{title}:\n\n{}", fence("text", &end.output)));
    }
    let children = turn
        .work()
        .steps()
        .iter()
        .filter(|child| child.parent.as_ref() == Some(&step.id) && is_nested(turn, child));
    for (index, child) in children.enumerate() {
        write_step(text, turn, child, &format!("{number}.{}", index + 1));
    }
}

fn how_it_ended(step: &Step) -> String {
    match &step.end {
        None => "(no end seen)".to_owned(),
        Some(end) => format!(
            "{} {}",
            if end.failed { "✗" } else { "✓" },
            duration(end.at.since(step.since))
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::money::Usd;
    use crate::present::live::tests::{Play, outcome};
    use crate::turn::event::Event;

    #[test]
    fn every_step_is_there_with_its_input_and_its_failure() {
        let mut play = Play::with_secret("correct horse");
        play.starts("a", "Bash", json!({"command": "cat key", "timeout": 5}));
        play.at(2).did("a", true, "correct horse: denied");
        play.starts("b", "Agent", json!({"description": "Look"}));
        play.starts_in("c", "Read", json!({"file_path": "x.txt"}), Some("b"));
        play.did("c", false, "text\n");
        play.starts_in("d", "Odd", json!({}), Some("unknown"));
        play.starts_in("e", "Odd", json!({}), Some("e"));
        play.tell(Event::Metered {
            cost: Usd(5_000),
            estimated: false,
        });
        play.result(outcome("Done."));
        play.ends(Some(0));
        insta::assert_snapshot!(details(&play.turn), @r#"
        # Turn 42 · The site

        ✓ 5 steps · 2 s · $0.0050 · haiku

        Booked: $0.005000. By the agent's own account: $0.031150.

        ## 1. Bash ✗ 2 s

        ```bash
        cat key
        ```

        ```json
        {
          "timeout": 5
        }
        ```

        Failure:

        ```text
        [hidden]: denied
        ```

        ## 2. Agent (no end seen)

        ```text
        Look
        ```

        ## 2.1. Read ✓ 0 s

        ```text
        x.txt
        ```

        Output:

        ```text
        text
        ```

        ## 3. Odd (no end seen)

        ```text
        (no input)
        ```

        ## 4. Odd (no end seen)

        ```text
        (no input)
        ```
        "#);
    }
}
