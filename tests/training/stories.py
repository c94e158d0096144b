"""This module generates the stories of the corpus: twelve kinds, each a chain of causes with its people, places and
things.

A story has one template for each of its sentences. Choices made at the start (who, where, what breaks) stay the same to
the end, so a later sentence can be predicted from an earlier one. This is what a model can learn here, besides spelling
and grammar.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import world
from grammar import expand, pick

#: Slots of a person: name and pronouns. Those of the second person have the prefix `other`.
_HER: Final = {"he": "she", "him": "her", "his": "her", "child": "girl", "man": "woman"}
_HIM: Final = {"he": "he", "him": "him", "his": "his", "child": "boy", "man": "man"}

Slots = dict[str, str]
Kind = Callable[[Random], tuple[str, Slots]]


def _people(draw: Random) -> Slots:
    """Two people of different names."""
    slots: Slots = {}
    taken = ""
    for prefix in ("", "other_"):
        girl = draw.random() < 0.5
        name = pick([name for name in (world.GIRLS if girl else world.BOYS) if name != taken], draw)
        taken = name
        words = {"name": name, **(_HER if girl else _HIM)}
        slots |= {prefix + key: word for key, word in words.items()}
        slots |= {prefix + key.capitalize(): word.capitalize() for key, word in words.items()}
    slots["home"] = pick(world.HOMES, draw)
    return slots


def _trade(draw: Random) -> Slots:
    trade = pick(world.TRADES, draw)
    return {f"trade_{field}" if field == "name" else field: getattr(trade, field) for field in trade._fields}


def _the(person: str) -> str:
    """Somebody who has been named before."""
    article, _, rest = person.partition(" ")
    return f"the {rest}" if article in {"a", "an"} else person


def _lost(draw: Random) -> tuple[str, Slots]:
    thing, matters = pick(world.LOST, draw)
    thief, where, habit = pick(world.FOUND, draw)
    first = pick(world.SEARCHED, draw)
    second = pick([place for place in world.SEARCHED if place != first], draw)
    slots = _people(draw) | {
        "thing": thing, "matters": matters, "thief": thief, "where": where, "habit": habit, "first": first, "second": second,
    }  # fmt: skip
    return (
        "[One morning|One evening|On a Sunday|After the first snow] {name}, who lived {home}, could not find {his} {thing}. {matters} "
        "{Name} looked {first}. [It was not there|There was only dust]. {He} looked {second}. "
        "[It was not there either|There was only a spider, and it had seen nothing].\n"
        '"Who was here [yesterday|last night]?" asked {other_name}, who [lived next door|had come to help].\n'
        '"Nobody," said {name}. "Nobody but {thief}."\n'
        "[They looked at each other|Then both of them began to laugh]. They went out and searched, and {where} lay the {thing}"
        "[, a little dirty but whole|, and it was not even scratched|]. "
        '"{habit}," said {other_name}. "[It is not stealing if one does not know better|You must not be angry]."\n'
        "From that day on {name} [hung the {thing} on a nail beside the door|kept the {thing} in a box with a lid]"
        "[, and it was never lost again| and knew every evening where it was].",
        slots,
    )


def _broken(draw: Random) -> tuple[str, Slots]:
    thing, cause, effect, quick, failed, good = pick(world.BROKEN, draw)
    slots = _people(draw) | {
        "thing": thing, "cause": cause, "effect": effect, "quick": quick, "failed": failed, "good": good,
    }  # fmt: skip
    return (
        "In [spring|autumn|the year of the long winter|the week before the fair] the {thing} broke, because {cause}. "
        "Now {effect}[, and everybody complained|, and nobody knew what to do|].\n"
        '"[I can mend that before supper|That is quickly done]," said {name}. {He} {quick}. But {failed}.\n'
        '"[What is mended in a hurry is mended twice|First find out why it broke]," said {other_name}. '
        '"[Let us look at the cause.|Why did it break?]"\n'
        "They looked, and they saw that {cause}. So they {good}. "
        "[It took longer|It was slow work, and their hands were sore], but [it held|this time it lasted].\n"
        "[Many years later|When {name} was old], the {thing} [was still as good as new|had never broken again]"
        "[, and {name} told every child why|, and people had forgotten that it had ever been otherwise].",
        slots,
    )


def _weather(draw: Random) -> tuple[str, Slots]:
    name, sign, care, loss = pick(world.WEATHER, draw)
    slots = _people(draw) | {"weather": name, "sign": sign, "care": care, "loss": loss}
    return (
        "{sign}. {name}, who [had lived {home} for sixty years|lived {home} and knew the sky], "
        '[stopped|put down the basket] and looked up. "There will be {a_weather}," {he} said.\n'
        'Some people believed {him}. They {care}. Others laughed. "[The sun is shining|My knee does not hurt]," said {other_name}, '
        '"and [I have better things to do|you said the same last year]."\n'
        "[In the night|Before the next morning|Two days later] the {weather} came. {loss}.\n"
        "{other_name} [came to {name} with {other_his} hat in {other_his} hands|sat down on the steps and said nothing for a long time]. "
        '"How did you know?"\n"[I did not know|Nobody can know]," said {name}. "I looked[, and I did not wait|]." '
        "Then {he} [gave {other_him} half of what {he} had saved|asked {other_him} in and put soup on the table].",
        slots | {"a_weather": name if name in {"frost", "snow", "hail"} else f"a {name}"},
    )


def _learner(draw: Random) -> tuple[str, Slots]:
    slots = _people(draw) | _trade(draw)
    return (
        "{name} wanted to be a {trade_name}. So {he} went to {other_name}, who {work} {home}, and asked to be taught.\n"
        '"[Good|Very well]," said {other_name}. "There is one thing that you must never forget: {step}."\n'
        "For [a month|forty days|a whole winter] {name} did as {he} was told. Then {he} became impatient. "
        '"[It has never made a difference|It takes too much time]," {he} thought, and on [Monday|a warm day|the day before the market] {he} left it out.\n'
        "[Nothing seemed to happen|At first all was well]. But in the end {spoiled}.\n"
        '{name} [was ashamed|wanted to run away]. "[Did you know that this would happen|Why did you not stop me]?" {he} asked.\n'
        '"[I did the same when I was young|I made the same mistake once]," said {other_name}. "[Now you know what the rule is for|Now the rule is yours]. Take your {tool} and begin again."\n'
        "{name} became a good {trade_name}, and {his} {goods} were known [in three villages|as far as the sea].",
        slots,
    )


def _count(draw: Random) -> tuple[str, Slots]:
    number = 20 + int(draw.random() * 60)
    found, cause, lesson = pick(
        (
            ("a hole in the sack", "a mouse had gnawed it, and grain after grain had run out on the way",
             "It is not enough to count at the end"),
            ("one basket twice in the book", "the wind had turned the page back", "A book is only as good as the hand that holds it"),
            ("that the boy had counted himself", "he had begun with the first finger and ended with his own nose",
             "Whoever counts stands outside"),
            ("a hen that sat behind the door", "she had hidden there to lay her eggs in peace",
             "What cannot be seen still has to be counted"),
            ("two stones stuck together", "honey had run over them", "Clean stones make clean sums"),
            ("that the gate had stood open", "nobody had thought that it was his turn to close it",
             "What belongs to everybody is watched by nobody"),
        ),
        draw,
    )  # fmt: skip
    slots = _people(draw) | {
        "number": str(number),
        "less": str(number - 1),
        "found": found,
        "cause": cause,
        "lesson": lesson,
    }
    what = pick(("sacks", "hens", "sheep", "baskets", "jars"), draw)
    return (
        "{name} counted the {what} every evening and put a [white|black|gray] stone into a box for each. "
        "On [Friday|the last day of the month|a foggy evening] there were {number} stones, but only {less} {what}.\n"
        '"[One of them has been stolen|There is a thief here]," said {other_name}.\n'
        '"[Perhaps|Maybe]," said {name}. "But first I count again." {He} counted from the left, and there were {less}. '
        "{He} counted from the right, and there were {less}.\n"
        "Then {he} went back, step by step, [the whole way from the morning to the evening|and looked at each place where something could have gone wrong]. "
        "And {he} found {found}: {cause}.\n"
        '"So there was no thief," said {other_name}[, and blushed|].\n"[No|There seldom is]," said {name}. "{lesson}."',
        slots | {"what": what},
    )


def _why(draw: Random) -> tuple[str, Slots]:
    question, answer, test, shown = pick(world.WHY, draw)
    slots = _people(draw) | {"question": question, "answer": answer, "test": test, "shown": shown}
    return (
        '"Why {question}?" asked {name}.\n'
        "[Most people only shrugged|Nobody at the table knew]. But {other_name}, [the teacher|{his} [uncle|cousin|neighbor]|who had been at sea], "
        '[thought for a while|put down the newspaper|smiled]. "{answer}."\n'
        '"[How do you know|Is that true]?" asked {name}.\n"[Do not believe me|You need not believe me]," said {other_name}. "[Try it|Look for yourself]."\n'
        "So {name} {test}[ and waited|]. {shown}.\n"
        "{He} wrote it down in [a green book|{his} notebook] [with the date|and drew a picture beside it]. "
        '"[Now I know it too|Now it is true twice]," {he} said, "[and I can show it to others|and tomorrow I will ask something else]."',
        slots | ({"his": slots["his"]}),
    )


def _riddle(draw: Random) -> tuple[str, Slots]:
    riddle, answer, wrong, because = pick(world.RIDDLES, draw)
    slots = _people(draw) | {"riddle": riddle, "answer": answer, "wrong": wrong, "because": because}
    return (
        "On [a rainy day|the way to school|the long road home] {name} [knew a riddle|wanted to pass the time]. "
        '"{riddle}?" {he} asked.\n"[That is easy|I know it]," said {other_name}. "It is {wrong}."\n'
        '"[No|Wrong]," said {name}. "{Because}."\n'
        "{other_name} [thought about it|was silent] [until the rain stopped|for a whole mile|while they ate their bread]. Then {other_he} [jumped up|stood still]. "
        '"{answer}!" {other_he} [cried|called out].\n'
        '"[Right|Yes, that is it]," said {name}. "[Now it is your turn|You may have the last apple]."\n'
        "But {other_name} [could think of no riddle|wanted to hear it once more], and so they [sang|told each other stories] until they were home.",
        slots,
    )


def _fable(draw: Random) -> tuple[str, Slots]:
    proud, pride, modest, danger, outcome = pick(world.FABLES, draw)
    slots = {"proud": proud, "pride": pride, "modest": modest, "danger": danger, "outcome": outcome}
    an = "An" if proud[0] in "aeiou" else "A"
    return (
        f"{an} {{proud}} [met|came upon] a {{modest}} [at the edge of the forest|on a narrow path|beside the pond]. "
        '"[Look at me|Make room]," said the {proud}. "[Nobody can match my {pride}|There is nothing in the world like my {pride}]. [What do you have|And what can you do]?"\n'
        '"[Not much|Very little]," said the {modest}. "[It has been enough so far|I get along]."\n'
        "[In that moment|Not long after that] {danger}. {outcome}\n"
        '"[You saved me|I should have been lost without you]," said the {proud}. "[How can I thank you|What do you want for it]?"\n'
        '"[You can let me pass|Say good morning when we meet]," said the {modest}[, and went on its way|].\n'
        "Since then the {proud} [speaks less of its {pride}|greets the {modest} first][, and everybody likes it better|].",
        slots,
    )


def _journey(draw: Random) -> tuple[str, Slots]:
    land, trouble, helper, help_ = pick(world.JOURNEYS, draw)
    load, receiver, end = pick(world.ERRANDS, draw)
    slots = _people(draw) | {
        "land": land, "trouble": trouble, "helper": helper, "help": help_, "load": load, "receiver": receiver, "end": end,
    }  # fmt: skip
    return (
        "{name}, who lived {home}, had to carry {load} to {receiver}. [It was a long way|The way was long], and between them lay a {land}. "
        "[{He} set out before sunrise|{He} took some bread and a warm coat and went].\n"
        "When {he} came to the {land}, {trouble}. {name} [sat down on a stone|did not know what to do]. "
        '[There|After a while] {helper} came by. "[Where do you want to go|Why do you look so sad]?"\n'
        '"To the other side," said {name}, "with {load}. [Can you help me|Is there a way]?"\n'
        "So {the_helper} {help}. {name} wanted to pay, but {the_helper} [would take nothing|shook {helper_his} head]. "
        '"[Help the next one|Somebody once did the same for me]."\n'
        "[Late in the evening|Before it was dark] {name} [arrived|knocked at the door]. {end} And on the way back {he} "
        "[met a child that was lost, and brought it home|carried water for an old man].",
        slots | {"helper_his": "her" if "woman" in helper else "his", "the_helper": _the(helper)},
    )


def _quarrel(draw: Random) -> tuple[str, Slots]:
    what, claims, test, result = pick(
        (
            ("pear tree", "it stood between their gardens", "leave the pears on the tree until both of you agree",
             "The pears fell and rotted, and in the next year they picked them together and ate them together"),
            ("ladder", "both had paid for it", "saw it in the middle, so that each has half",
             "Neither half reached the roof, and so they nailed them together again"),
            ("well", "it had been dug by both their grandfathers", "draw water by turns, an hour each",
             "They met at the well at every change and had so much to talk about that they forgot the quarrel"),
            ("donkey", "each had fed it for half a year", "let it choose its own way in the evening",
             "The donkey went to neither of them but to the child who had scratched its ears"),
            ("wall", "each said that it stood on the wrong side", "measure it together with one rope",
             "The wall stood exactly in the middle, and both of them had been wrong"),
        ),
        draw,
    )  # fmt: skip
    judge = pick(("the teacher", "the oldest woman of the village", "the ferryman", "a traveler"), draw)
    slots = _people(draw) | {"what": what, "claims": claims, "test": test, "result": result, "judge": judge}
    slots["the_judge"] = _the(judge)
    return (
        "{name} and {other_name} lived {home}, and they quarreled about a {what}, because {claims}. "
        '"[It is mine|I was right from the beginning]," said {name}. "[No, it is mine|You were wrong from the beginning]," said {other_name}. '
        "[This went on for a year|They no longer greeted each other].\n"
        'At last they asked {judge}. {The_judge} [listened to both|heard one and then the other] and said: "[My advice is short|This is what I would do]: {test}."\n'
        "[They did not like it|They were surprised], but they did it. {result}.\n"
        '["How stupid we were!" said|"What did we quarrel about?" asked] {name}.\n'
        '"[I have forgotten it|About a {what}]," said {other_name}[, and both of them laughed|].',
        slots,
    )


def _guest(draw: Random) -> tuple[str, Slots]:
    guest, gift, use = pick(
        (
            ("a tinker", "a pot without a hole", "Soup that was cooked in it never burned"),
            ("an old soldier", "a wooden flute", "Whoever heard it forgot to be afraid"),
            ("a mapmaker", "a map of the valley", "Every path was on it, and even the house had its own small dot"),
            ("a gardener", "three gray seeds", "In spring three flowers grew from them that nobody had seen before"),
            (
                "a clockmaker",
                "a clock that had only one hand",
                "It did not say the minute, but it was never wrong about the hour",
            ),
            ("a singer", "a new song", "By summer everybody in the valley knew it"),
        ),
        draw,
    )
    slots = _people(draw) | {"guest": guest, "the_guest": _the(guest), "gift": gift, "use": use}
    weather = pick(
        ("It rained", "Snow was falling", "The wind pulled at the shutters", "Fog lay over the fields"), draw
    )
    return (
        "{weather}, and it was late. There was a knock at the door of the house where {name} and {other_name} lived. "
        "[Outside|On the step] stood {guest}[ with wet shoes|, tired and cold].\n"
        '"[We have not enough for three|We do not know you]," [whispered|said] {other_name}.\n'
        '"[Then we have less for two|Nobody should be outside on such a night]," said {name}, and opened the door. '
        "They gave {the_guest} [soup and the place by the stove|bread, cheese and a dry blanket].\n"
        "In the morning {the_guest} was gone. On the table lay {gift}. {use}.\n"
        '"[And I wanted to keep the door shut|I was wrong]," said {other_name}.\n'
        '"[You were hungry|It was dark]," said {name}. "[It is easy to be kind in the morning|Next time you will open the door]."',
        slots | {"weather": weather},
    )


def _message(draw: Random) -> tuple[str, Slots]:
    first, second, third = pick(
        (
            ("Bring two goats to the market", "Bring new coats to the market", "Sing new notes at the market"),
            ("The bread is ready at noon", "The bed is ready at noon", "The bear is ready at noon"),
            (
                "Meet me at the mill with the cart",
                "Meet me on the hill with the cart",
                "Meet me on the hill with the cat",
            ),
            ("Close the gate before the rain", "Close the gate before the train", "Chase the goat before the train"),
            ("Send six boards and a hammer", "Send six birds and a hammer", "Send sick birds to the farmer"),
        ),
        draw,
    )
    slots = _people(draw) | {"first": first, "second": second, "third": third}
    return (
        '"{first}," said {name} to the [shepherd|peddler|boy with the dog], who was going to the next village. "[Tell it to {other_name}|Please tell {other_name}]."\n'
        '[The wind was loud|A cart went by], and at the bridge the message was: "{second}." '
        '[Somebody else carried it on|From there a second messenger took it], and when {other_name} heard it, it was: "{third}."\n'
        '{other_name} [scratched {other_his} head|was surprised]. "[That makes no sense.|Why should I do that?]" {Other_he} did not [guess|argue]. '
        '{Other_he} went back along the same way and asked each of them: "What did you hear, and what did you say?"\n'
        "At the bridge {other_he} found the place where the words had changed.\n"
        'Since then {name} [writes messages down|puts a note into the hat of the messenger]. "[Paper does not hear badly|What is written stays as it is]," {he} says.',
        slots,
    )


KINDS: Final[tuple[Kind, ...]] = (
    _lost, _broken, _weather, _learner, _count, _why, _riddle, _fable, _journey, _quarrel, _guest, _message,
)  # fmt: skip


def story(draw: Random) -> str:
    """One story: paragraphs on lines of their own."""
    template, slots = pick(KINDS, draw)(draw)
    return expand(template, slots, draw)
