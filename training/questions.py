"""Passages and questions for `answers.py`, made up: facts about people, places, buildings, animals, companies, books,
events, recipes and plans, each said and asked in several ways, among sentences of real English that answer nothing.

Names are made of syllables, so that an answer cannot be learnt by heart: it has to be found in the passage. A third of
the questions have no answer there, though something of the right kind is: another's year of birth, another tower.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pydoc_data import topics

Row = tuple[str, str, int, int]
"""Passage, question, and the answer's place in the passage; -1 where it is not there."""

ONSETS = [
    "b",
    "br",
    "bl",
    "c",
    "ch",
    "cl",
    "cr",
    "d",
    "dr",
    "f",
    "fl",
    "fr",
    "g",
    "gl",
    "gr",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "pr",
    "qu",
    "r",
    "s",
    "sc",
    "sh",
    "sk",
    "sl",
    "sm",
    "sp",
    "st",
    "str",
    "t",
    "th",
    "tr",
    "v",
    "w",
    "y",
    "z",
]
VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ee", "ou", "au", "io", "y"]
CODAS = [
    "n",
    "l",
    "r",
    "s",
    "m",
    "th",
    "rd",
    "lle",
    "na",
    "ra",
    "ck",
    "nd",
    "st",
    "x",
    "ng",
    "do",
    "ro",
    "ti",
    "va",
    "sk",
    "mer",
    "ton",
    "ville",
    "berg",
    "stein",
    "son",
    "ez",
    "ini",
    "ov",
    "wick",
    "ham",
    "ley",
]
FIRST = [
    "Anna",
    "Maria",
    "John",
    "Peter",
    "Paul",
    "Alice",
    "Robert",
    "Emma",
    "David",
    "Laura",
    "Thomas",
    "Clara",
    "Henry",
    "Sofia",
    "James",
    "Nina",
    "Oscar",
    "Ruth",
    "Samuel",
    "Irene",
    "Victor",
    "Julia",
    "Hugo",
    "Elena",
    "Martin",
    "Rosa",
    "Felix",
    "Diana",
    "Carlos",
    "Yuki",
    "Ahmed",
    "Fatima",
    "Ivan",
    "Olga",
    "Pierre",
    "Marie",
    "Hans",
    "Greta",
    "Luis",
    "Carmen",
]
JOBS = [
    "teacher",
    "doctor",
    "baker",
    "painter",
    "farmer",
    "nurse",
    "pilot",
    "lawyer",
    "singer",
    "writer",
    "engineer",
    "gardener",
    "tailor",
    "sailor",
    "chemist",
    "physicist",
    "architect",
    "poet",
    "composer",
    "mathematician",
    "astronomer",
    "politician",
    "actor",
    "sculptor",
    "explorer",
    "biologist",
    "philosopher",
    "journalist",
]
COLOURS = [
    "red",
    "green",
    "blue",
    "yellow",
    "white",
    "black",
    "brown",
    "grey",
    "orange",
    "purple",
    "golden",
    "silver",
    "pink",
    "turquoise",
]
THINGS = [
    "bicycle",
    "boat",
    "car",
    "piano",
    "garden",
    "hat",
    "coat",
    "lamp",
    "violin",
    "telescope",
    "camera",
    "clock",
    "mirror",
    "chair",
    "table",
    "ladder",
    "engine",
    "kite",
    "drum",
    "statue",
    "painting",
    "map",
    "letter",
    "key",
    "knife",
    "bell",
    "rope",
    "basket",
    "bottle",
    "wheel",
    "bridge",
    "wall",
    "roof",
    "tunnel",
    "theatre",
    "library",
    "school",
    "market",
    "hospital",
    "station",
    "harbour",
    "church",
    "palace",
    "fountain",
    "machine",
    "radio",
    "printer",
    "microscope",
    "rocket",
    "satellite",
    "computer",
]
ANIMALS = [
    "dog",
    "cat",
    "horse",
    "parrot",
    "rabbit",
    "goat",
    "turtle",
    "hen",
    "donkey",
    "mouse",
    "whale",
    "eagle",
    "octopus",
    "lizard",
    "frog",
    "beetle",
    "salmon",
    "wolf",
    "bear",
    "owl",
    "penguin",
    "elephant",
    "giraffe",
    "tiger",
    "spider",
    "bat",
    "camel",
    "dolphin",
    "shark",
    "snail",
    "crab",
]
FOODS = [
    "apples",
    "soup",
    "bread",
    "rice",
    "cheese",
    "fish",
    "noodles",
    "cake",
    "honey",
    "plums",
    "flour",
    "sugar",
    "butter",
    "milk",
    "eggs",
    "salt",
    "beans",
    "potatoes",
    "onions",
    "garlic",
    "olives",
    "grapes",
    "tea",
    "coffee",
    "chocolate",
    "pepper",
    "leaves",
    "seeds",
    "grass",
    "insects",
    "berries",
    "worms",
]
MATERIALS = [
    "iron",
    "steel",
    "wood",
    "stone",
    "glass",
    "copper",
    "gold",
    "silver",
    "clay",
    "brick",
    "marble",
    "granite",
    "concrete",
    "bronze",
    "leather",
    "wool",
    "cotton",
    "paper",
]
SUBJECTS = [
    "mathematics",
    "medicine",
    "law",
    "music",
    "history",
    "chemistry",
    "physics",
    "biology",
    "philosophy",
    "art",
    "economics",
    "geology",
    "botany",
]
SPORTS = ["football", "tennis", "chess", "cricket", "hockey", "rugby", "golf", "swimming", "rowing", "cycling"]
ADJECTIVES = [
    "old",
    "new",
    "small",
    "large",
    "famous",
    "quiet",
    "bright",
    "dark",
    "ancient",
    "modern",
    "wooden",
    "heavy",
    "silent",
    "hidden",
    "lost",
    "broken",
    "golden",
    "early",
]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
WORDS = [
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "fifteen",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "a",
    "hundred",
]
PURPOSES = [
    "measure time",
    "carry water",
    "store grain",
    "cut wood",
    "cross the river",
    "light the streets",
    "keep the rain out",
    "send messages",
    "cool the engine",
    "protect the city",
    "study the stars",
    "heat the house",
    "print books",
    "catch fish",
    "make paper",
    "train pilots",
]
REASONS = [
    "it was too expensive",
    "the river had flooded",
    "there was not enough water",
    "he had lost the key",
    "the roof was damaged",
    "the train was late",
    "it had become too small",
    "she wanted to study",
    "the war had begun",
    "nobody had paid for it",
    "the weather was bad",
    "the bridge had collapsed",
    "they had run out of money",
    "it was losing its visitors",
]
VERBS = [  # base, past, participle
    *((b, b + "d", b + "d") for b in ["create", "use", "move", "close", "name", "decide", "produce", "invade", "describe", "rescue", "damage", "examine", "admire"]),
    *((b, b + "ed", b + "ed") for b in ["open", "visit", "repair", "collect", "clean", "attack", "paint", "defend", "finish", "launch", "restore", "record", "import", "export", "present", "inspect", "protect", "remember", "expand", "develop", "publish", "establish", "construct", "design", "found", "invent", "discover"]),
    ("build", "built", "built"), ("buy", "bought", "bought"), ("sell", "sold", "sold"), ("lose", "lost", "lost"),
    ("find", "found", "found"), ("make", "made", "made"), ("write", "wrote", "written"), ("win", "won", "won"),
    ("steal", "stole", "stolen"), ("draw", "drew", "drawn"), ("give", "gave", "given"), ("take", "took", "taken"),
    ("break", "broke", "broken"), ("hide", "hid", "hidden"), ("bring", "brought", "brought"), ("send", "sent", "sent"),
    ("destroy", "destroyed", "destroyed"), ("carry", "carried", "carried"), ("copy", "copied", "copied"), ("lead", "led", "led"),
]  # fmt: skip
MEASURES = {  # how …?, its noun, units
    "tall": ("height", "metres|feet|m"), "high": ("height", "metres|feet|m"), "long": ("length", "kilometres|miles|metres|km"),
    "wide": ("width", "metres|feet|kilometres"), "deep": ("depth", "metres|feet"), "heavy": ("weight", "tonnes|kilograms|pounds|kg"),
    "old": ("age", "years"), "large": ("area", "square kilometres|hectares|square miles"),
}  # fmt: skip


def syllables(r: random.Random) -> str:
    parts = [r.choice(ONSETS) + r.choice(VOWELS) for _ in range(r.choice((1, 1, 2)))]
    return ("".join(parts) + r.choice(CODAS)).capitalize()


def number(r: random.Random) -> str:
    n = r.choice((r.randint(2, 99), r.randint(100, 999), r.randint(1000, 999_999)))
    return r.choice(
        (f"{n:,}", f"{n:,}", f"{n}", r.choice(WORDS), f"{n / 10:.1f}", f"about {n:,}", f"{r.randint(1, 90)} million")
    )


def date(r: random.Random) -> str:
    day, month, year = r.randint(1, 28), r.choice(MONTHS), r.randint(1200, 2024)
    return r.choice((f"{day} {month} {year}", f"{month} {year}", f"{month} {day}, {year}"))


def measure(r: random.Random, adjective: str) -> str:
    unit = r.choice(MEASURES[adjective][1].split("|"))
    return f"{number(r).removeprefix('about ')} {unit}"


def place(r: random.Random) -> str:
    return r.choice(("{}", "{}", "{}", "New {}", "Port {}", "San {}", "{} Bay", "Saint {}")).format(syllables(r))


KINDS: dict[str, Callable[[random.Random], str]] = {
    "person": lambda r: r.choice(("{0} {1}", "{0} {1}", "{1}", "{0}")).format(r.choice(FIRST), syllables(r)),
    "friend": lambda r: r.choice(("{0} {1}", "{1}", "{0}")).format(r.choice(FIRST), syllables(r)),
    "city": place,
    "country": lambda r: syllables(r) + r.choice(("ia", "land", "", "stan", "ania")),
    "river": lambda r: f"the {r.choice(('{} River', 'River {}', '{}')).format(syllables(r))}",
    "mountain": lambda r: r.choice(("Mount {}", "{} Peak", "the {} Mountains")).format(syllables(r)),
    "sea": lambda r: r.choice(("the {} Sea", "Lake {}", "the Gulf of {}", "the {} Ocean")).format(syllables(r)),
    "building": lambda r: "the {} {}".format(
        syllables(r),
        r.choice(
            [
                "Tower",
                "Bridge",
                "Castle",
                "Cathedral",
                "Museum",
                "Palace",
                "Library",
                "Stadium",
                "Temple",
                "Dam",
                "Theatre",
                "Station",
            ]
        ),
    ),
    "company": lambda r: r.choice(
        ("{}", "{} Corporation", "{} Motors", "{} & Sons", "the {} Company", "{} Systems")
    ).format(syllables(r)),
    "school": lambda r: r.choice(("the University of {}", "{} College", "{} University", "the {} Institute")).format(
        syllables(r)
    ),
    "work": lambda r: f"The {r.choice(ADJECTIVES).capitalize()} {r.choice(THINGS).capitalize()}",
    "event": lambda r: r.choice(
        ("the {} Festival", "the Battle of {}", "the {} Conference", "the Treaty of {}", "the {} Cup")
    ).format(syllables(r)),
    "year": lambda r: str(r.randint(1100, 2024)),
    "date": date,
    "number": number,
    "count": lambda r: r.choice((str(r.randint(2, 400)), r.choice(WORDS), f"{r.randint(1000, 90_000):,}")),
    "percent": lambda r: r.choice(("{} percent", "{}%")).format(r.randint(1, 99)),
    "money": lambda r: r.choice(("${} million", "€{}", "{} dollars", "£{}", "{} euros", "${},000")).format(
        r.randint(2, 900)
    ),
    "time": lambda r: r.choice(("{}:30", "{} o'clock", "{} am", "{} pm", "{}:15 pm", "noon")).format(r.randint(1, 12)),
    "day": lambda r: r.choice(DAYS),
    "month": lambda r: r.choice(MONTHS),
    "room": lambda r: r.choice(("room {}", "hall {}", "building {}", "gate {}", "platform {}")).format(
        r.randint(1, 40)
    ),
    "temperature": lambda r: r.choice(("{} degrees", "{} °C", "{} degrees Celsius")).format(r.randint(-40, 400)),
    "duration": lambda r: (
        f"{r.choice((str(r.randint(2, 60)), r.choice(WORDS)))} {r.choice(['minutes', 'hours', 'days', 'weeks', 'months', 'years'])}"
    ),
    "amount": lambda r: (
        f"{r.randint(2, 900)} {r.choice(['grams', 'kilograms', 'litres', 'cups', 'spoons', 'millilitres'])}"
    ),
    "job": lambda r: r.choice(JOBS),
    "colour": lambda r: r.choice(COLOURS),
    "thing": lambda r: r.choice(THINGS),
    "product": lambda r: r.choice(("{}s", "{} parts")).format(r.choice(THINGS)),
    "animal": lambda r: r.choice(ANIMALS),
    "food": lambda r: r.choice(FOODS),
    "material": lambda r: r.choice(MATERIALS),
    "field": lambda r: r.choice(SUBJECTS),
    "sport": lambda r: r.choice(SPORTS),
    "purpose": lambda r: r.choice(PURPOSES),
    "reason": lambda r: r.choice(REASONS),
    "name": syllables,
    "language": lambda r: syllables(r) + r.choice(("ish", "ese", "ian", "")),
}


@dataclass(frozen=True)
class Fact:
    """Ways to say it, with slots; `s` is what it is about. For each slot that can be asked for, the questions."""

    ways: tuple[str, ...]
    asks: dict[str, tuple[str, ...]]


def fact(ways: str, **asks: str) -> Fact:
    return Fact(tuple(ways.split("|")), {slot: tuple(text.split("|")) for slot, text in asks.items()})


PERSON = [
    fact("{s} was born in {city} in {year}.|{s} (born {year} in {city}) was a {job}.|{s} was born in {year} in {city}.",
         city="Where was {s} born?|In which city was {s} born?|What is the birthplace of {s}?|What was {s}'s birthplace?",
         year="When was {s} born?|In which year was {s} born?|What year was {s} born?|What is {s}'s year of birth?"),
    fact("{s} was born on {date}.|{s} was born on {date}, the youngest of {count} children.", date="When was {s} born?|On what date was {s} born?|What is {s}'s date of birth?"),
    fact("{s} died in {city} in {year}.|{s} died in {year} in {city} after a long illness.|In {year}, {s} died in {city}.",
         city="Where did {s} die?|In which city did {s} die?", year="When did {s} die?|In what year did {s} die?"),
    fact("{s} died at the age of {count}.|{s} was {count} when he died.", count="How old was {s} at death?|At what age did {s} die?|How old was {s} when he died?"),
    fact("{s} lives in {city}.|{s} has a home in {city}.|{s} now lives in {city} with {friend}.", city="Where does {s} live?|In which town does {s} live?|Which city does {s} live in?"),
    fact("{s} works as a {job} in {city}.|{s} is a {job}.|{s}, a {job} from {city}, spoke first.", job="What does {s} do?|What is {s}'s job?|What does {s} do for a living?|What is {s}'s profession?"),
    fact("{s} works for {company}.|{s} has worked for {company} since {year}.|{s} is employed by {company}.", company="Who does {s} work for?|Which company does {s} work for?|Where does {s} work?"),
    fact("{s} has a {colour} {thing}.|The {thing} of {s} is {colour}.", colour="What colour is {s}'s {thing}?|What color is the {thing} of {s}?"),
    fact("{s}'s {animal} is called {name}.|{s} has a {animal} named {name}.", name="What is {s}'s {animal} called?|What is the name of {s}'s {animal}?"),
    fact("{s} likes {food}.|{s} loves to eat {food}.|{s}'s favourite food is {food}.", food="What does {s} like to eat?|What is {s}'s favourite food?|What food does {s} like?"),
    fact("{s} visited {friend} in {month}.|In {month}, {s} visited {friend}.|{s} met {friend} in {month}.", friend="Who did {s} visit in {month}?|Whom did {s} meet?|Who did {s} visit?", month="When did {s} visit {friend}?|In which month did {s} meet {friend}?"),
    fact("{s} studied {field} at {school}.|{s} went to {school} to study {field}.|At {school}, {s} studied {field}.",
         field="What did {s} study?|Which subject did {s} study at {school}?", school="Where did {s} study?|Which university did {s} attend?|Where did {s} study {field}?"),
    fact("{s} moved to {city} in {year}.|In {year}, {s} moved to {city}.", city="Where did {s} move?|Where did {s} move to in {year}?", year="When did {s} move to {city}?|When did {s} move?"),
    fact("{s} married {friend} in {year}.|In {year}, {s} married {friend}.|{s} and {friend} married in {year}.", friend="Who did {s} marry?|Who was {s}'s wife?|Whom did {s} marry?", year="When did {s} marry {friend}?|When did {s} get married?"),
    fact("{s}'s sister is {friend}.|The sister of {s} is {friend}.", friend="Who is {s}'s sister?|Who is the sister of {s}?|What is the name of {s}'s sister?"),
    fact("{s}'s father was {friend}.|{s} was the son of {friend}.|{s}'s father, {friend}, was a {job}.", friend="Who was {s}'s father?|What was the name of {s}'s father?"),
    fact("{s} wrote {work} in {year}.|{work} was written by {s} in {year}.|In {year}, {s} published {work}.",
         s="Who wrote {work}?|Who is the author of {work}?|Who published {work}?", work="What did {s} write?|Which book did {s} write in {year}?|What did {s} publish?", year="When did {s} write {work}?|When was {work} written?|When was {work} published?"),
    fact("{s} invented the {thing} in {year}.|The {thing} was invented by {s} in {year}.|In {year}, {s} invented the {thing}.",
         s="Who invented the {thing}?|Who was the inventor of the {thing}?", thing="What did {s} invent?", year="When was the {thing} invented?|In what year did {s} invent the {thing}?"),
    fact("{s} discovered {mountain} in {year}.|{mountain} was discovered by {s} in {year}.", s="Who discovered {mountain}?", mountain="What did {s} discover?", year="When was {mountain} discovered?"),
    fact("{s} won the {name} Prize in {year}.|{s} received the {name} Prize in {year} for work on {field}.|In {year}, the {name} Prize went to {s}.",
         year="When did {s} win the {name} Prize?|When did {s} receive the {name} Prize?", s="Who won the {name} Prize in {year}?|Who received the {name} Prize?"),
    fact("{s} owns {count} books.|{s} has {count} books.", count="How many books does {s} own?|How many books does {s} have?"),
    fact("{s} plays {sport} every {day}.|Every {day}, {s} plays {sport}.", sport="What sport does {s} play?|Which sport does {s} play?|What does {s} play?", day="When does {s} play {sport}?|On which day does {s} play {sport}?"),
    fact("{s} speaks {language}.|{s} learnt {language} in {city}.", language="Which language does {s} speak?|What language did {s} learn?|What language does {s} speak?"),
    fact("{s} became president in {year}.|In {year}, {s} was elected president of {country}.|{s} became the president of {country} in {year}.", year="When did {s} become president?|In which year was {s} elected president?"),
    fact("{s} left {city} because {reason}.|Because {reason}, {s} left {city}.", reason="Why did {s} leave {city}?|Why did {s} leave?"),
    fact("{s} is {count} years old.|{s}, who is {count}, works in {city}.", count="How old is {s}?|What is {s}'s age?"),
    fact("{s} earns {money} a year.|{s} is paid {money}.", money="How much does {s} earn?|What is {s} paid?|How much is {s} paid?"),
    fact("{s} called at {time} on {day}.", time="When did {s} call?|At what time did {s} call?|What time did {s} call?", day="On which day did {s} call?|What day did {s} call?"),
]  # fmt: skip

BUILDING = [
    fact("{s} is {measure_tall} tall.|{s} stands {measure_tall} tall.|{s} has a height of {measure_tall}.|At {measure_tall}, {s} is the tallest structure in {city}.|{s} rises {measure_tall} above {city}.|The height of {s} is {measure_tall}.|{s} is {measure_tall} high.",
         measure_tall="How tall is {s}?|What is the height of {s}?|How high is {s}?"),
    fact("{s} is {measure_long} long and {measure_wide} wide.|{s} is {measure_long} long.|With a length of {measure_long}, {s} crosses {river}.", measure_long="How long is {s}?|What is the length of {s}?", measure_wide="How wide is {s}?|What is the width of {s}?"),
    fact("{s} was built in {year} by {friend}.|{friend} built {s} in {year}.|{s} was built between {year} and {year2}.|{s} was completed in {year} by {friend}.|Construction of {s} by {friend} began in {year}.",
         year="When was {s} built?|In what year was {s} built?|When was {s} completed?|When did construction of {s} begin?", friend="Who built {s}?|By whom was {s} built?"),
    fact("{s} was designed by {friend}.|{friend} designed {s}.|The architect of {s} was {friend}.|{s}, designed by the architect {friend}, opened in {year}.",
         friend="Who designed {s}?|Who was the architect of {s}?", year="When did {s} open?"),
    fact("{s} is named after {friend}.|{s} is named after the {job} {friend}, who designed it.|{s} got its name from {friend}.", friend="Who is {s} named after?|After whom is {s} named?"),
    fact("{s} is in {city}.|{s} is located in {city}, {country}.|{s} stands in the centre of {city}.|{s} can be found in {city}.|{s} is a landmark in {city}.", city="Where is {s}?|In which city is {s}?|Where is {s} located?|What city is {s} in?"),
    fact("{s} is made of {material}.|{s} was built of {material}.|{s} consists of {material} and {material2}.", material="What is {s} made of?|What material is {s} made of?|What was {s} built of?"),
    fact("{s} has {count} floors.|There are {count} floors in {s}.|{s} has {count} floors and {number} windows.", count="How many floors does {s} have?|How many floors are there in {s}?", number="How many windows does {s} have?"),
    fact("{s} has {count} steps.|Visitors climb {count} steps to the top of {s}.", count="How many steps does {s} have?|How many steps are there in {s}?"),
    fact("{s} cost {money}.|{s} was built at a cost of {money}.|The construction of {s} cost {money}.", money="How much did {s} cost?|What was the cost of {s}?|How much did it cost to build {s}?"),
    fact("{number} people visit {s} each year.|{s} has {number} visitors a year.|{s} attracts {number} visitors every year.|In {year}, {number} people visited {s}.", number="How many people visit {s} each year?|How many visitors does {s} have?|How many people visited {s} in {year}?"),
    fact("{s} opens at {time}.|{s} opens at {time} and closes at {time2}.|{s} is open from {time} to {time2}.", time="When does {s} open?|At what time does {s} open?|What time does {s} open?", time2="When does {s} close?|What time does {s} close?"),
    fact("{s} is closed on {day}.|On {day}, {s} is closed.", day="On which day is {s} closed?|When is {s} closed?|What day is {s} closed?"),
    fact("A ticket for {s} costs {money}.|Tickets to {s} cost {money}.", money="How much is a ticket for {s}?|How much does a ticket to {s} cost?|What does a ticket for {s} cost?"),
    fact("{s} was destroyed by a fire in {year}.|A fire destroyed {s} in {year}.", year="When was {s} destroyed?|In which year was {s} destroyed?"),
    fact("{s} was used to {purpose}.|{s} was built to {purpose}.", purpose="What was {s} used for?|Why was {s} built?|What was {s} built for?"),
    fact("{s} was closed because {reason}.|Because {reason}, {s} was closed.", reason="Why was {s} closed?"),
    fact("{s} is painted {colour}.|{s} was painted {colour} in {year}.", colour="What colour is {s}?|What colour is {s} painted?"),
]  # fmt: skip

PLACE = [
    fact("{s} is the capital of {country}.|The capital of {country} is {s}.|{s} has been the capital of {country} since {year}.", s="What is the capital of {country}?|Which city is the capital of {country}?", country="{s} is the capital of which country?|Which country is {s} the capital of?"),
    fact("{s} has a population of {number}.|The population of {s} is {number}.|{s} has {number} inhabitants.|About {number} people live in {s}.|{s} is home to {number} people.", number="What is the population of {s}?|How many people live in {s}?|How many inhabitants does {s} have?"),
    fact("{s} lies on {river}.|{s} is on the banks of {river}.|{river} flows through {s}.", river="Which river flows through {s}?|On which river does {s} lie?|What river is {s} on?|What river flows through {s}?"),
    fact("{s} was founded in {year} by {friend}.|{friend} founded {s} in {year}.|Founded in {year} by {friend}, {s} grew quickly.", year="When was {s} founded?|In what year was {s} founded?", friend="Who founded {s}?|By whom was {s} founded?"),
    fact("{s} is known for its {product}.|{s} is famous for {product}.|{s} became famous for its {product}.", product="What is {s} known for?|What is {s} famous for?"),
    fact("{s} has {count} bridges.|There are {count} bridges in {s}.", count="How many bridges does {s} have?|How many bridges are there in {s}?"),
    fact("The mayor of {s} is {friend}.|{friend} is the mayor of {s}.|{friend} became mayor of {s} in {year}.", friend="Who is the mayor of {s}?|What is the name of the mayor of {s}?"),
    fact("People in {s} speak {language}.|The official language of {s} is {language}.|{language} is spoken in {s}.", language="What language is spoken in {s}?|Which language do people in {s} speak?|What is the official language of {s}?"),
    fact("The currency of {s} is the {name}.|In {s}, people pay in {name}.", name="What is the currency of {s}?|What currency is used in {s}?"),
    fact("{s} borders {country} and {country2}.|{s} shares a border with {country}.", country="Which country does {s} border?|What country does {s} share a border with?"),
    fact("The tallest building in {s} is {building}.|{building} is the tallest building in {s}.", building="What is the tallest building in {s}?|Which is the tallest building in {s}?"),
    fact("The highest mountain in {s} is {mountain}.|{mountain}, the highest mountain in {s}, is covered with snow.", mountain="What is the highest mountain in {s}?|Which mountain is the highest in {s}?"),
    fact("The longest river in {s} is {river}.|{river} is the longest river in {s}.", river="What is the longest river in {s}?"),
    fact("{s} covers {measure_large}.|{s} has an area of {measure_large}.|The area of {s} is {measure_large}.", measure_large="How large is {s}?|What is the area of {s}?|How big is {s}?"),
    fact("In {s}, it rains {count} days a year.|It rains on {count} days a year in {s}.", count="How many days a year does it rain in {s}?|How often does it rain in {s}?"),
    fact("In winter, temperatures in {s} fall to {temperature}.|The average temperature in {s} is {temperature}.", temperature="What is the temperature in {s}?|What is the average temperature in {s}?|How cold is {s} in winter?"),
    fact("{s} exports {product}.|{s}'s main export is {product}.|{s} exports {product} and {food}.", product="What does {s} export?|What is the main export of {s}?"),
    fact("{s} became independent in {year}.|In {year}, {s} gained independence.", year="When did {s} become independent?|When did {s} gain independence?"),
    fact("{s} is {measure_long} from {city}.|{city} is {measure_long} away from {s}.", measure_long="How far is {s} from {city}?|How far is it from {s} to {city}?"),
    fact("The train from {s} to {city} takes {duration}.|It takes {duration} to get from {s} to {city} by train.", duration="How long does the train from {s} to {city} take?|How long does it take to get from {s} to {city}?"),
    fact("{s} lies in {country}.|{s} is a city in {country}.|{s} is in the north of {country}.", country="In which country is {s}?|Which country is {s} in?|Where is {s}?"),
]  # fmt: skip

NATURE = [
    fact("{s} is {measure_long} long.|{s} has a length of {measure_long}.|{s} flows for {measure_long} before it reaches {sea}.", measure_long="How long is {s}?|What is the length of {s}?"),
    fact("{s} flows into {sea}.|{s} rises in {mountain} and flows into {sea}.|{s} empties into {sea}.", sea="Where does {s} flow?|What does {s} flow into?|Into which sea does {s} flow?|Where does {s} end?", mountain="Where does {s} rise?|Where is the source of {s}?"),
    fact("{s} is {measure_deep} deep.|{s} has a depth of {measure_deep}.|The depth of {s} is {measure_deep}.", measure_deep="How deep is {s}?|What is the depth of {s}?"),
    fact("{s} is {measure_high} high.|{s} rises to {measure_high}.|With a height of {measure_high}, {s} is the highest peak of {country}.|{s} has an elevation of {measure_high}.", measure_high="How high is {s}?|What is the height of {s}?|How tall is {s}?|What is the elevation of {s}?"),
    fact("{s} was first climbed in {year} by {friend}.|{friend} first climbed {s} in {year}.", year="When was {s} first climbed?", friend="Who first climbed {s}?|Who was the first to climb {s}?"),
    fact("{s} erupted in {year}.|The last eruption of {s} was in {year}.", year="When did {s} erupt?|When did {s} last erupt?"),
    fact("{s} is in {country}.|{s} lies in {country}.|{s} is located in {country}.", country="Where is {s}?|In which country is {s}?|What country is {s} in?"),
    fact("{s} is home to {count} kinds of fish.|{count} kinds of fish live in {s}.", count="How many kinds of fish live in {s}?"),
    fact("{s} is named after {friend}.|{s} got its name from {friend}.", friend="Who is {s} named after?|After whom is {s} named?"),
]  # fmt: skip

COMPANY = [
    fact("{s} was founded in {year} by {friend}.|{friend} founded {s} in {year}.|{s} was founded by {friend} in {city}.", year="When was {s} founded?|In which year was {s} founded?", friend="Who founded {s}?|Who is the founder of {s}?", city="Where was {s} founded?"),
    fact("{s} is based in {city}.|The headquarters of {s} are in {city}.|{s} is headquartered in {city}.|{s} has its head office in {city}.", city="Where is {s} based?|Where are the headquarters of {s}?|Where is {s} headquartered?"),
    fact("{s} makes {product}.|{s} produces {product}.|{s} manufactures {product} and {product2}.|{s} sells {product}.", product="What does {s} make?|What does {s} produce?|What does {s} sell?|What does {s} manufacture?"),
    fact("{s} employs {number} people.|{s} has {number} employees.|{number} people work for {s}.", number="How many people work for {s}?|How many employees does {s} have?|How many people does {s} employ?"),
    fact("The head of {s} is {friend}.|{friend} is the chief executive of {s}.|{friend} leads {s}.|The director of {s} is {friend}.", friend="Who is the head of {s}?|Who leads {s}?|Who is the director of {s}?|Who is the chief executive of {s}?"),
    fact("{s} was bought by {company} for {money}.|{company} bought {s} for {money}.|In {year}, {company} acquired {s} for {money}.", company="Who bought {s}?|Which company bought {s}?|Who acquired {s}?", money="How much did {company} pay for {s}?|For how much was {s} bought?"),
    fact("{s} earned {money} in {year}.|In {year}, the revenue of {s} was {money}.|{s} made a profit of {money} in {year}.", money="How much did {s} earn in {year}?|What was the revenue of {s} in {year}?|What profit did {s} make?"),
    fact("{s} has offices in {count} countries.|{s} has {count} offices.", count="How many offices does {s} have?|In how many countries does {s} have offices?"),
    fact("{percent} of {s} belongs to {friend}.|{friend} owns {percent} of {s}.", percent="How much of {s} does {friend} own?|What share of {s} does {friend} own?", friend="Who owns {percent} of {s}?"),
    fact("{s} has {count} students.|{count} students attend {s}.", count="How many students does {s} have?|How many students attend {s}?"),
    fact("{s} closed its factory in {city} because {reason}.", reason="Why did {s} close its factory?|Why did {s} close its factory in {city}?", city="Where did {s} close its factory?"),
]  # fmt: skip

WORK = [
    fact("{s} was directed by {friend}.|{friend} directed {s}.|The director of {s} was {friend}.", friend="Who directed {s}?|Who was the director of {s}?"),
    fact("{s} was painted by {friend} in {year}.|{friend} painted {s} in {year}.", friend="Who painted {s}?", year="When was {s} painted?"),
    fact("{s} is about {friend}.|{s} tells the story of {friend}, a {job}.", friend="Who is {s} about?|Whose story does {s} tell?"),
    fact("{s} sold {number} copies.|{number} copies of {s} were sold.", number="How many copies of {s} were sold?|How many copies did {s} sell?"),
    fact("{s} has {count} pages.|The book {s} has {count} pages.", count="How many pages does {s} have?|How long is {s}?"),
    fact("{s} hangs in {building}.|{s} can be seen in {building}.", building="Where is {s}?|Where does {s} hang?|Where can {s} be seen?"),
    fact("{s} was first shown in {city} in {year}.|{s} appeared in {year}.", year="When was {s} first shown?|When did {s} appear?", city="Where was {s} first shown?"),
]  # fmt: skip

EVENT = [
    fact("{s} took place in {year}.|{s} was held in {city} in {year}.|{s} was fought in {year} near {city}.|In {year}, {s} took place in {city}.", year="When did {s} take place?|When was {s} held?|In what year was {s}?|When was {s}?", city="Where did {s} take place?|Where was {s} held?"),
    fact("{s} lasted {duration}.|{s} lasted for {duration}.", duration="How long did {s} last?"),
    fact("{s} was won by {friend}.|{friend} won {s}.|The winner of {s} was {friend}.", friend="Who won {s}?|Who was the winner of {s}?"),
    fact("{number} people took part in {s}.|{s} had {number} participants.|{number} people attended {s}.", number="How many people took part in {s}?|How many people attended {s}?"),
    fact("{s} begins on {day} at {time} in {room}.|{s} starts at {time} on {day} in {room}.|{s} is on {day} at {time}.", day="On which day does {s} begin?|On what day is {s}?|Which day is {s}?", time="At what time does {s} begin?|What time does {s} start?|When does {s} start?", room="Where does {s} take place?|In which room is {s}?"),
    fact("{s} was moved to {day} because {reason}.|Because {reason}, {s} was moved to {day}.", day="To which day was {s} moved?", reason="Why was {s} moved?|Why was {s} moved to {day}?"),
    fact("{s} ended with {friend} leaving {city}.|{s} was cancelled because {reason}.", reason="Why was {s} cancelled?"),
]  # fmt: skip

ANIMAL = [
    fact("{s} eats {food}.|{s} feeds on {food}.|{s} lives on {food} and {food2}.", food="What does {s} eat?|What does {s} feed on?"),
    fact("{s} lives for {duration}.|{s} can live up to {duration}.", duration="How long does {s} live?|How long can {s} live?"),
    fact("{s} weighs {measure_heavy}.|{s} weighs up to {measure_heavy}.|{s} has a weight of {measure_heavy}.", measure_heavy="How much does {s} weigh?|What is the weight of {s}?|How heavy is {s}?"),
    fact("{s} grows to {measure_long}.|{s} is {measure_long} long.|{s} reaches a length of {measure_long}.", measure_long="How long is {s}?|How long does {s} grow?|What length does {s} reach?"),
    fact("{s} lives in {country}.|{s} is found in {country}.", country="Where does {s} live?|Where is {s} found?"),
    fact("{s} has {count} teeth.|{s} has {count} legs.", count="How many teeth does {s} have?|How many legs does {s} have?"),
    fact("{s} can run at {count} kilometres per hour.|{s} reaches {count} kilometres per hour.", count="How fast is {s}?|How fast can {s} run?"),
    fact("{s} lays {count} eggs.|{s} lays {count} eggs in {month}.", count="How many eggs does {s} lay?", month="When does {s} lay eggs?"),
    fact("{s} sleeps {duration} a day.|{s} sleeps for {duration}.", duration="How long does {s} sleep?"),
]  # fmt: skip

RECIPE = [
    fact("{s} needs {amount} of {food}.|For {s}, take {amount} of {food}.|To make {s}, you need {amount} of {food}.", amount="How much {food} does {s} need?|How much {food} do you need for {s}?"),
    fact("{s} is baked for {duration}.|{s} must cook for {duration}.|Bake {s} for {duration} at {temperature}.", duration="How long is {s} baked?|How long must {s} cook?|How long do you bake {s}?", temperature="At what temperature is {s} baked?|At what temperature do you bake {s}?"),
    fact("{s} serves {count} people.|{s} is enough for {count} people.", count="How many people does {s} serve?|How many people is {s} enough for?"),
    fact("{s} costs {money}.|The price of {s} is {money}.|{s} is sold for {money}.", money="How much does {s} cost?|What is the price of {s}?|What does {s} cost?"),
    fact("{s} is made from {food}.|{s} is made of {food} and {food2}.", food="What is {s} made from?|What is {s} made of?"),
    fact("{s} comes from {country}.|{s} was first made in {country}.", country="Where does {s} come from?|Where was {s} first made?|From which country does {s} come?"),
]  # fmt: skip

THING = [
    fact("{s} is made of {material}.|{s} was made from {material} in {year}.", material="What is {s} made of?"),
    fact("{s} is used to {purpose}.|People use {s} to {purpose}.|{s} helps to {purpose}.", purpose="What is {s} used for?|What do people use {s} for?"),
    fact("{s} weighs {measure_heavy}.|{s} has a weight of {measure_heavy}.", measure_heavy="How much does {s} weigh?|How heavy is {s}?|What is the weight of {s}?"),
    fact("{s} is {measure_old} old.|{s} is about {measure_old} old.", measure_old="How old is {s}?|What is the age of {s}?"),
    fact("{s} costs {money}.|{s} was sold for {money}.|The price of {s} is {money}.", money="How much does {s} cost?|What is the price of {s}?|For how much was {s} sold?"),
    fact("{s} was found in {city} in {year}.|{friend} found {s} near {city} in {year}.", city="Where was {s} found?", year="When was {s} found?", friend="Who found {s}?"),
    fact("{s} melts at {temperature}.|{s} boils at {temperature}.|{s} freezes at {temperature}.", temperature="At what temperature does {s} melt?|At what temperature does {s} boil?|When does {s} freeze?"),
    fact("{s} belongs to {friend}.|{friend} owns {s}.|The owner of {s} is {friend}.", friend="Who owns {s}?|Who does {s} belong to?|Who is the owner of {s}?"),
    fact("{s} has {count} parts.|{s} consists of {count} parts.", count="How many parts does {s} have?|Of how many parts does {s} consist?"),
    fact("{s} is {colour}.|{s} is painted {colour}.", colour="What colour is {s}?|Which colour does {s} have?"),
    fact("{s} is kept in {building}.|{s} is in {building}.", building="Where is {s} kept?|Where is {s}?"),
    fact("{s} was invented by {friend} in {year}.|{friend} invented {s} in {year}.", friend="Who invented {s}?", year="When was {s} invented?"),
]  # fmt: skip

TOPICS: list[tuple[Callable[[random.Random], str], list[Fact], str]] = [
    (KINDS["person"], PERSON, "He|She"), (KINDS["person"], PERSON, "He|She"), (KINDS["building"], BUILDING, "It"),
    (KINDS["building"], BUILDING, "It"), (KINDS["city"], PLACE, "It"), (KINDS["country"], PLACE, "It"),
    (KINDS["river"], NATURE, "It"), (KINDS["mountain"], NATURE, "It"), (KINDS["sea"], NATURE, "It"),
    (KINDS["company"], COMPANY, "It"), (KINDS["school"], COMPANY, "It"), (KINDS["work"], WORK, "It"),
    (KINDS["event"], EVENT, "It"), (lambda r: f"the {r.choice(ANIMALS)}", ANIMAL, "It"),
    (lambda r: f"the {r.choice(COLOURS)} {r.choice(ANIMALS)}", ANIMAL, "It"),
    (lambda r: f"{r.choice(FOODS)} {r.choice(('soup', 'cake', 'pie', 'bread'))}", RECIPE, "It"),
    (lambda r: f"the {r.choice(ADJECTIVES)} {r.choice(THINGS)}", THING, "It"), (lambda r: r.choice(MATERIALS), THING, "It"),
    (lambda r: f"the {syllables(r)} {r.choice(THINGS)}", THING, "It"),
]  # fmt: skip

SLOT = re.compile(r"{(\w+)}")
PROSE = [
    sentence.strip()
    for text in topics.topics.values()
    for sentence in re.findall(r"(?<=[.] )[A-Z][a-z][\w ,'()-]{30,140}[.]", " ".join(text.split()))
]
LEADS = (
    "Today, ",
    "In fact, ",
    "As many know, ",
    "According to the guide, ",
    "At that time, ",
    "It is said that ",
    "Later, ",
    "However, ",
)


def fill(r: random.Random, slot: str) -> str:
    if slot.startswith("measure_"):
        return measure(r, slot.removeprefix("measure_"))
    return KINDS[slot.rstrip("2")](r)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Told:
    """A sentence, where each slot's value stands in it, and the values."""

    text: str
    places: dict[str, tuple[int, int]]
    values: dict[str, str]
    fact: Fact


def tell(r: random.Random, fact: Fact, subject: str, pronoun: str) -> Told:
    """A fact in one of its ways; a pronoun may stand for what it is about."""
    way = r.choice(fact.ways)
    values = {"s": subject}
    for slot in SLOT.findall(way + " ".join(q for qs in fact.asks.values() for q in qs)):
        if slot not in values:
            values[slot] = fill(r, slot)
    text, places, end = "", {}, 0
    for match in SLOT.finditer(way):
        text += way[end : match.start()]
        shown = (
            pronoun
            if match[1] == "s" and pronoun and match.start() == 0 and not way.startswith("{s}'")
            else values[match[1]]
        )
        if shown == values[match[1]]:
            places[match[1]] = (len(text), len(text) + len(shown))
        text += shown
        end = match.end()
    text += way[end:]
    return Told(capital(text), places, values, fact)


def generic(r: random.Random) -> Told:
    """Somebody did something to something, with any verb: who, what, when, where."""
    base, past, participle = r.choice(VERBS)
    slots = {
        "who": KINDS["person"](r),
        "what": f"the {r.choice(ADJECTIVES)} {r.choice(THINGS)}",
        "year": KINDS["year"](r),
        "city": KINDS["city"](r),
    }
    way = r.choice((f"{{who}} {past} {{what}} in {{year}}.", f"{{what}} was {participle} by {{who}} in {{city}}.", f"In {{year}}, {{who}} {past} {{what}} in {{city}}.", f"{{who}} {past} {{what}}, as the papers wrote in {{year}}."))  # fmt: skip
    asks = {
        "who": (f"Who {past} {{what}}?", f"By whom was {{what}} {participle}?"),
        "what": (f"What did {{who}} {base}?",),
        "year": (f"When did {{who}} {base} {{what}}?", f"When was {{what}} {participle}?"),
        "city": (f"Where did {{who}} {base} {{what}}?", f"Where was {{what}} {participle}?"),
    }
    text, places, end = "", {}, 0
    for match in SLOT.finditer(way):
        text += way[end : match.start()]
        places[match[1]] = (len(text), len(text) + len(slots[match[1]]))
        text += slots[match[1]]
        end = match.end()
    return Told(capital(text + way[end:]), places, slots, Fact((way,), asks))


def dressed(r: random.Random, told: Told) -> Told:
    """With what real sentences have beside their facts: a second unit in brackets, an aside after the subject."""
    for slot, (_, end) in list(told.places.items()):
        if slot.startswith("measure_") and r.random() < 0.25:
            told = inserted(told, end, f" ({r.randint(2, 9000):,} {r.choice(('ft', 'm', 'mi', 'lb', 'acres'))})")
            break
    if "s" in told.places and told.places["s"][0] == 0 and r.random() < 0.12:
        after = told.text[told.places["s"][1] :]
        if re.match(r" (is|was|has|lies|stands|works|lives|died|made|makes) ", after):
            aside = r.choice(ASIDES).format(r.choice(ADJECTIVES), syllables(r))
            told = inserted(told, told.places["s"][1], f", {aside},")
    return told


ASIDES = (
    "one of the most {0} in {1}", "which many visitors call {0}", "together with {1}", "known to everybody in {1}",
    "the most {0} of its kind", "once thought to be {0}", "like {1}", "often called the {0} one",
)  # fmt: skip


def inserted(told: Told, at: int, text: str) -> Told:
    """A sentence with something put in; what stands behind it moves."""
    moved = {k: (a + len(text), b + len(text)) if a >= at else (a, b) for k, (a, b) in told.places.items()}
    return Told(told.text[:at] + text + told.text[at:], moved, told.values, told.fact)


def ask(r: random.Random, told: Told, slot: str) -> str:
    question = SLOT.sub(lambda m: told.values.get(m[1]) or fill(r, m[1]), r.choice(told.fact.asks[slot]))
    question = capital(question)
    return (
        question
        if r.random() < 0.85
        else r.choice((question.rstrip("?"), question.lower(), question.rstrip("?").lower()))
    )


def example(r: random.Random) -> Row:
    """A passage of one to three topics, and a question about one of them, or about what is not there."""
    said: list[Told] = []
    unused: list[tuple[str, Fact]] = []
    for _ in range(r.choice((1, 1, 2, 2, 3))):
        if r.random() < 0.2:
            said.append(generic(r))
            continue
        kind, facts, pronouns = r.choice(TOPICS)
        subject, pronoun = kind(r), r.choice(pronouns.split("|"))
        chosen = r.sample(facts, min(len(facts), r.randint(1, 4)))
        unused += [(subject, f) for f in facts if f not in chosen]
        for number_, one in enumerate(chosen):
            said.append(dressed(r, tell(r, one, subject, pronoun if number_ and r.random() < 0.5 else "")))
    asked = r.randrange(len(said))
    slots = [slot for slot in said[asked].places if slot in said[asked].fact.asks]
    answerable = r.random() < 0.67 and bool(slots)
    slot = r.choice(slots) if slots else ""
    question = ask(r, said[asked], slot) if answerable else missing(r, said, unused)
    parts: list[tuple[str, int]] = []
    for index, told in enumerate(said):
        if r.random() < 0.25 and PROSE:
            parts.append((r.choice(PROSE), -1))
        lead = r.choice(LEADS) if r.random() < 0.08 else ""
        text = lead + told.text
        parts.append((text, len(lead) if index == asked else -1))
    passage, start, end = "", -1, -1
    for text, lead_length in parts:
        if passage.endswith(". ") and re.match(r"(It|He|She) ", text) and r.random() < 0.4:
            passage, text = passage[:-2] + r.choice((" and ", ", and ", "; ")), text[0].lower() + text[1:]
        if lead_length >= 0 and answerable:
            first, last = said[asked].places[slot]
            start, end = len(passage) + lead_length + first, len(passage) + lead_length + last
        passage += text + " "
    passage = passage.strip()
    if answerable:
        # The same words twice: the question would have two answers, of which one is marked.
        answer = passage[start:end]
        if passage.count(answer) > 1:
            return example(r)
    return passage, question, start, end


def missing(r: random.Random, said: list[Told], unused: list[tuple[str, Fact]]) -> str:
    """A question that the passage does not answer, though it could seem so."""
    if unused and r.random() < 0.6:
        subject, fact_ = r.choice(unused)
        told = tell(r, fact_, subject, "")
    else:
        source = r.choice(said)
        kind, facts, _ = r.choice([t for t in TOPICS if source.fact in t[1]] or TOPICS)
        told = tell(r, source.fact if source.fact in facts else r.choice(facts), kind(r), "")
    slot = r.choice([s for s in told.fact.asks if s != "s"] or list(told.fact.asks))
    return ask(r, told, slot)


def made(seed: int, count: int) -> list[Row]:
    r = random.Random(seed)
    return [example(r) for _ in range(count)]
