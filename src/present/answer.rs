//! The answer of a turn, in messages; it always says something.

use crate::domain::turn_record::{Part, Sent};
use crate::turn::collect::Plan;
use crate::turn::end::End;
use crate::turn::event::Stop;
use crate::turn::machine::Turn;
use crate::turn::state::Attempt;

use super::markdown::to_discord;
use super::notice;
use super::page;
use super::plain::{cut, is_blank};
use super::secrets::scrub;

/// Returns the messages of the answer: the agent's words, then what is to be said of the turn's end.
pub fn answer(turn: &Turn) -> Vec<String> {
    let words = agents_words(turn);
    let notice = turn.end().and_then(notice::end);
    let mut pages = page::pages(&words);
    if turn.attempt() == Attempt::Renewed {
        add_before(&mut pages, &notice::renewed());
    }
    match notice {
        Some(notice) => add_behind(&mut pages, &scrub(&notice, secrets(turn))),
        None if words.is_empty() && turn.collected().files.is_empty() => {
            add_behind(&mut pages, &notice::no_text());
        }
        None => {}
    }
    pages
}

/// Returns the whole answer as it is stored and sent: its messages, what is said of files left out, and the files. The
/// first files hang on the last message of the text, so that they stand below it.
pub fn parts(turn: &Turn, plan: &Plan) -> Vec<Part> {
    let mut pages = answer(turn);
    if let Some(note) = notice::left_out(plan, turn.collected()) {
        add_behind(&mut pages, &scrub(&note, secrets(turn)));
    }
    let mut parts: Vec<Part> = pages.into_iter().map(part).collect();
    let mut batches = plan.batches.iter().cloned();
    if let Some(last) = parts.last_mut() {
        last.files = batches.next().unwrap_or_default();
    }
    parts.extend(batches.map(|files| Part {
        files,
        ..part(String::new())
    }));
    parts
}

fn part(text: String) -> Part {
    Part {
        text,
        files: Vec::new(),
        sent: Sent::No,
    }
}

/// Returns the answer's words in Discord's dialect; empty where there are none that can be seen or should be.
fn agents_words(turn: &Turn) -> String {
    let trusted = !matches!(
        turn.end(),
        Some(End::Refused(_) | End::NotStarted(_) | End::Stopped(Stop::Tampered | Stop::WrongMode))
    );
    let shown = if trusted {
        // Whole text first: a secret that a page's border cuts in two is not found any more.
        to_discord(&scrub(turn.text(), secrets(turn)))
    } else {
        String::new()
    };
    if page::pages(&shown).is_empty() {
        String::new()
    } else {
        shown
    }
}

fn secrets(turn: &Turn) -> &[String] {
    &turn.facts().secrets.0
}

fn add_before(pages: &mut Vec<String>, line: &str) {
    match pages.first_mut() {
        Some(first) if fits(first, line) => *first = format!("{line}\n{first}"),
        _ => pages.insert(0, line.to_owned()),
    }
}

fn add_behind(pages: &mut Vec<String>, line: &str) {
    if is_blank(line) {
        return;
    }
    let line = cut(line, page::LIMIT);
    match pages.last_mut() {
        Some(last) if fits(last, &line) => *last = format!("{last}\n\n{line}"),
        _ => pages.push(line),
    }
}

fn fits(page: &str, line: &str) -> bool {
    page.chars().count() + line.chars().count() + 2 <= page::LIMIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::grant::Refusal;
    use crate::present::live::tests::{Play, failed, outcome};
    use crate::turn::collect::{DeliveryLimits, plan};
    use crate::turn::event::{Collected, Event, Found, Trouble};

    #[test]
    fn an_answer_is_the_result_in_discords_dialect() {
        let mut play = Play::running();
        play.says("I will look.");
        play.result(outcome("#### Done\n- [x] all"));
        play.ends(Some(0));
        assert_eq!(answer(&play.turn), ["**Done**\n- ☑ all"]);
    }

    #[test]
    fn an_empty_answer_says_so_unless_files_speak_for_it() {
        for text in ["", "\n\n", "\u{200b}", "```\n```"] {
            let mut play = Play::running();
            play.result(outcome(text));
            play.ends(Some(0));
            assert_eq!(answer(&play.turn), ["Finished without text."], "{text:?}");
            play.tell(Event::Collected(Collected {
                files: vec![Found {
                    path: "/w/a.png".into(),
                    shown: "a.png".into(),
                    size: 1,
                }],
                ..Collected::default()
            }));
            assert_eq!(answer(&play.turn), Vec::<String>::new());
        }
    }

    #[test]
    fn a_failure_is_no_answer_and_its_raw_text_is_not_shown() {
        let mut play = Play::running();
        play.result(failed(
            "API Error: 529 Overloaded. Check 127.0.0.1",
            Some(529),
        ));
        play.ends(Some(1));
        assert_eq!(
            answer(&play.turn),
            ["The provider is overloaded. Ask again in a few minutes."]
        );
    }

    #[test]
    fn the_partial_text_stands_before_what_is_said_of_the_end() {
        let mut play = Play::running();
        play.says("The first half");
        play.result(failed("exceeded the 32000 output token maximum", None));
        play.ends(Some(1));
        insta::assert_snapshot!(answer(&play.turn).join("\n=====\n"), @r"
        The first half

        The answer became longer than the model may write, so it ends here. Ask for the rest.
        ");
    }

    #[test]
    fn a_notice_that_does_not_fit_gets_a_message_of_its_own() {
        let mut play = Play::running();
        play.says(&"x".repeat(1999));
        play.ends(Some(0));
        let pages = answer(&play.turn);
        assert_eq!(pages.len(), 2);
        assert!(pages[1].starts_with("The agent ended early"));
    }

    #[test]
    fn refusals_and_runs_that_never_began_say_why() {
        let mut play = Play::new();
        play.tell(Event::Refused(Refusal::Suspended));
        assert_eq!(
            answer(&play.turn),
            ["You are suspended here. An admin can lift that."]
        );
        let mut play = Play::starting();
        play.tell(Event::NotStarted(Trouble::Full));
        assert_eq!(
            answer(&play.turn),
            ["The sandbox has no room left. An admin has to mend that."]
        );
    }

    fn made(count: usize) -> Vec<Found> {
        let file = |n| Found {
            path: format!("/w/{n}.txt"),
            shown: format!("{n}.txt"),
            size: 1,
        };
        (0..count).map(file).collect()
    }

    #[test]
    fn files_hang_below_the_text_and_what_is_left_out_is_said() {
        let mut play = Play::running();
        play.result(outcome(&"x".repeat(2500)));
        play.ends(Some(0));
        let files = made(25);
        let plan = plan(&files, &DeliveryLimits::for_files_of(100));
        let parts = parts(&play.turn, &plan);
        let shape: Vec<_> = parts
            .iter()
            .map(|part| (part.text.chars().count() > 0, part.files.len()))
            .collect();
        assert_eq!(shape, [(true, 0), (true, 10), (false, 10)]);
        let lines: Vec<&str> = parts[1].text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(
            lines[2],
            "-# Left out: `20.txt` (1 byte, beyond the first 20 files)"
        );
    }

    #[test]
    fn files_alone_are_an_answer_without_text() {
        let mut play = Play::running();
        play.result(outcome(""));
        play.ends(Some(0));
        let files = made(1);
        play.tell(Event::Collected(Collected {
            files: files.clone(),
            ..Collected::default()
        }));
        let plan = plan(&files, &DeliveryLimits::for_files_of(100));
        let parts = parts(&play.turn, &plan);
        assert_eq!(parts.len(), 1);
        assert_eq!((parts[0].text.as_str(), parts[0].files.len()), ("", 1));
    }

    #[test]
    fn a_secret_is_hidden_even_where_a_page_ends_or_mark_up_would_hide_it() {
        let secret = "hunter_2*hunter_3";
        for lead in 1980..2002 {
            let mut play = Play::with_secret(secret);
            play.result(outcome(&format!(
                "{} {secret} and sk-ant-api03-abcdefgh",
                "x".repeat(lead)
            )));
            play.ends(Some(0));
            let all = answer(&play.turn).concat();
            assert!(!all.contains("hunter") && !all.contains("sk-ant"), "{lead}");
        }
    }

    #[test]
    fn a_run_that_cannot_be_trusted_says_nothing_of_its_own() {
        let mut play = Play::running();
        play.says("Trust me.");
        play.tell(Event::Shrank);
        play.ends(Some(137));
        let all = answer(&play.turn).concat();
        assert!(all.starts_with("Stopped: the record"), "{all}");
    }
}
