"""This module is the world in which the stories of the corpus happen: people, trades, places, animals, things.

Related things are listed together: a trade has its tool, its goods and typical mishaps, so that causes and consequences
in a story fit each other.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Trade(NamedTuple):
    """A trade.

    :param goods: its products or animals, as a plural or a mass noun
    :param work: the daily work
    :param step: the step that beginners leave out, and `spoiled`: the consequence
    """

    name: str
    place: str
    tool: str
    goods: str
    work: str
    step: str
    spoiled: str


TRADES: Final = (
    Trade("miller", "mill", "sieve", "flour", "ground grain", "sift the flour twice",
          "the flour was full of husks, and nobody would buy it"),
    Trade("baker", "bakery", "wooden spoon", "bread", "baked bread", "let the dough rest until it had doubled",
          "the loaves came out of the oven as flat and hard as tiles"),
    Trade("potter", "workshop", "turning wheel", "bowls", "shaped clay", "press all the air out of the clay",
          "the bowls cracked in the fire, one after the other"),
    Trade("weaver", "workshop", "loom", "cloth", "wove cloth", "count the threads before the first row",
          "the cloth came out wide at one end and narrow at the other"),
    Trade("smith", "forge", "hammer", "knives", "worked iron", "wait until the iron glowed yellow",
          "the blade broke at the first blow"),
    Trade("gardener", "garden", "spade", "beans", "dug and planted", "water the seeds every evening",
          "the rows stayed bare, and not one leaf came up"),
    Trade("carpenter", "workshop", "saw", "tables", "planed boards", "measure every board twice",
          "the legs were not of the same length, and the table rocked like a boat"),
    Trade("beekeeper", "garden", "smoker", "honey", "looked after bees", "leave enough honey for the winter",
          "the hives were silent when spring came"),
    Trade("shepherd", "hut", "staff", "wool", "watched the sheep", "count the sheep at the gate",
          "two lambs stayed behind on the hill, and nobody missed them until dark"),
    Trade("boatbuilder", "boathouse", "plane", "boats", "built boats", "seal every joint with tar",
          "water came in at the first joint, and the boat sank at its rope"),
)  # fmt: skip

GIRLS: Final = ("Ada", "Anna", "Clara", "Ida", "Lena", "Marta", "Nora", "Rosa", "Vera", "Willa")
BOYS: Final = ("Ben", "Emil", "Hugo", "Jonas", "Karl", "Lucas", "Oskar", "Paul", "Simon", "Tom")

#: Where people live, with the preposition.
HOMES: Final = (
    "in a village by the river", "in a small house at the edge of the forest", "in a town with a red bridge",
    "on an island in the lake", "on a farm in the hills", "near the old harbor", "in the last house of the valley",
    "in a street behind the market",
)  # fmt: skip

#: Small things that get lost: what it is, and why it matters.
LOST: Final = (
    ("silver key", "Without it the [chest|cupboard|gate] could not be opened."),
    ("brass bell", "Without it the goats would not come home."),
    ("gold ring", "It had belonged to {his} grandmother."),
    ("pocket watch", "Without it nobody knew when the ferry would leave."),
    ("little knife", "It was the only sharp one in the house."),
    ("green button", "It was the last one on {his} winter coat."),
    ("glass marble", "It was blue as the lake and had no twin."),
    ("needle", "It was the only one that was fit for leather."),
)

SEARCHED: Final = (
    "under the bed", "behind the stove", "in the hay", "on the stairs", "in every pocket", "under the bench",
    "in the flour bin", "between the boards of the floor", "beside the well", "along the path",
)  # fmt: skip

#: Who took the lost thing, where it was, and how that came about.
FOUND: Final = (
    ("a crow", "in its nest in the [oak|pear tree]", "Crows like whatever shines"),
    ("a mouse", "in a hole under the [stairs|cupboard]", "Mice carry home what is small and smooth"),
    ("a goat", "in the [dry grass|straw] of the stable", "Goats try everything with their teeth"),
    ("the cat", "under the [blanket|old chair] by the stove", "Cats play with what rolls"),
    ("the dog", "under the [rose bush|apple tree]", "Dogs bury what they want to keep"),
    ("the stream", "between two stones below the [bridge|mill]", "Water takes along what it can lift"),
)

#: Things that break: what, why, what nobody could do then, the quick repair and why it failed, the good repair.
BROKEN: Final = (
    ("bridge", "the flood had washed the stones from under it", "nobody could cross the river",
     "laid two planks over the gap", "the planks bent under the first cart",
     "carried stones to the river for six days and built the pillar anew"),
    ("mill wheel", "a branch had been caught in it", "there was no flour for bread",
     "tied the broken boards with rope", "the rope went soft in the water and slipped",
     "cut new boards of oak and fixed each with four nails"),
    ("roof", "the storm had lifted the tiles", "the rain came in and ran down the walls",
     "hung a blanket over the hole", "the blanket was full of water within an hour",
     "laid new tiles, row by row, from the bottom to the top"),
    ("pump", "the leather inside had dried out", "there was no water in the square",
     "poured a bucket of water into it", "the water ran through and was gone",
     "opened the pump and cut a new ring of leather"),
    ("cart", "the wheel had run over a stone", "the apples could not go to market",
     "pushed the spokes back by hand", "they fell out again at the first bend",
     "heated the iron band and set it around the wheel while it glowed"),
    ("oven", "the clay had cracked in the cold", "there was no warm bread in the morning",
     "filled the crack with mud", "the mud dried and fell into the bread",
     "broke out the old clay and mixed new clay with straw"),
    ("clock in the tower", "dust had filled its wheels", "the whole town came too late to everything",
     "moved the hands with a stick", "after an hour they stood still once more",
     "took out each wheel, cleaned it with a brush, and oiled it"),
    ("fence", "the posts had rotted in the wet ground", "the sheep ran into the cabbages",
     "leaned a door against the hole", "the oldest ram pushed the door over",
     "burned the ends of new posts, so that they would not rot, and dug them in"),
)  # fmt: skip

#: Weather: its name, the sign, what careful people do, what happens to the others.
WEATHER: Final = (
    ("storm", "The swallows flew low over the water", "tied up the boats and closed the shutters",
     "Boats that had not been tied drifted out and broke on the rocks"),
    ("frost", "The stars were very clear, and the air smelled of iron", "covered the young plants with straw",
     "Plants that had not been covered were black in the morning"),
    ("flood", "The river was brown and carried whole branches", "carried grain and blankets up to the loft",
     "Grain that had been left in the cellar was wet and lost"),
    ("snow", "The clouds hung low and gray like wool", "brought in wood and filled the lamps",
     "Houses without wood were cold for three days"),
    ("hail", "The clouds had a green edge, and the bees came home at noon", "drove the animals under a roof and picked the plums",
     "Plums that had stayed on the trees lay in the mud"),
    ("drought", "The frogs had left the pond before June", "dug the well deeper and saved every bucket",
     "Fields without a well turned yellow and then brown"),
)  # fmt: skip

#: Explanations: the question, the answer, a test and what it shows.
WHY: Final = (
    ("does ice float", "Water grows a little when it freezes, so ice is lighter than the water around it",
     "put a full bottle of water out in the frost", "In the morning the bottle had burst, because the ice needed more room"),
    ("does bread rise", "The yeast eats the sugar in the flour and breathes out gas, and the gas makes bubbles in the dough",
     "put one dough near the stove and one in the cellar",
     "The warm one had doubled after an hour, because yeast works faster when it is warm"),
    ("do we see lightning before we hear thunder", "Light is faster than sound",
     "watched a man who chopped wood on the other side of the lake",
     "The axe fell first, and the sound came after it, over the water"),
    ("is a shadow long in the evening", "The sun stands low then, and its light comes from the side",
     "pushed a stick into the ground and marked its shadow every hour",
     "The shadow was shortest at noon and longest before the sun went down"),
    ("does iron rust", "Water and air together eat the iron",
     "laid one nail in water, one in oil and one on a dry shelf",
     "After a week only the nail in the water was brown, because oil and dry air had kept the others clean"),
    ("does the kettle sing", "Small bubbles rise from the hot bottom and burst in the cooler water above",
     "listened at the kettle from the beginning", "It sang while the water grew warm, and it was quiet when all of it boiled"),
    ("do the leaves fall", "A tree would lose its water through them while the ground is frozen, so it lets them go",
     "broke off a branch in autumn", "Where each leaf had been there was a little door of cork, and it was closed"),
    ("does a bell ring longer than a pot", "The metal of a bell is even and has no seam, so nothing stops it from moving",
     "laid a finger on the bell while it rang", "The sound stopped at once, because the bell could not move any more"),
    ("is the sea salty", "Rivers carry a little salt from the stones into the sea, and the sun takes away only the water",
     "left a bowl of sea water in the sun", "After three days the water was gone, and white salt lay in the bowl"),
    ("does wood float and a nail sink", "Wood is lighter than as much water, and iron is heavier",
     "put a nail into a little boat of bark", "The boat swam and carried the nail, because boat and air and nail together were light"),
    ("do stars shine only at night", "They shine by day too, but the sun is so bright that we do not see them",
     "lit a candle at noon and again at midnight", "At noon nobody noticed the candle, and at midnight it filled the room"),
    ("does a candle go out under a glass", "A flame needs air, as we do, and under the glass the air is soon used up",
     "put a small glass over one candle and a large glass over another",
     "The small glass went dark first, because there was less air in it"),
)  # fmt: skip

RIDDLES: Final = (
    ("What has teeth and never bites", "A comb", "a saw", "a saw bites wood all day"),
    ("What grows when you take something away from it", "A hole", "a tree", "a tree does not grow when you cut it"),
    ("What goes around the house and leaves one track", "A wheelbarrow", "a cat", "a cat leaves four"),
    ("What can you give away and still have to keep", "Your word", "a coin", "a coin that is given away is gone"),
    ("What runs all day and never leaves its bed", "The river", "a clock", "a clock has no bed"),
    ("What gets wet while it dries", "A towel", "a duck", "a duck comes out of the water dry"),
    ("What is full of holes and still holds water", "A sponge", "a net", "a net holds fish and lets the water go"),
    ("What has a neck and no head", "A bottle", "a swan", "a swan has a very small head, but it has one"),
    ("What gets larger the more people share it", "A secret", "a loaf", "a shared loaf gets smaller"),
    ("What speaks every language and has no mouth", "An echo", "a book", "a book speaks only one"),
)

#: Proud and modest animals: who boasts and of what, who does not, what happens, who is of use then.
FABLES: Final = (
    ("fox", "cleverness", "hedgehog", "the dogs came over the hill",
     "The fox thought of a hundred tricks and could not choose one. The hedgehog knew only one trick, but it knew it well: "
     "it rolled itself up, and the dogs went away with sore noses."),
    ("peacock", "feathers", "sparrow", "the forest began to burn",
     "The long feathers caught in the thorns. The sparrow flew ahead and showed the peacock the way to the water."),
    ("stag", "horns", "mole", "hunters came with ropes",
     "The horns were caught in the branches. The mole dug away the root that held the bush, and the stag was free."),
    ("hare", "speed", "snail", "a thick fog came down",
     "The hare ran in a great circle and came back to where it had been. The snail followed the wall and was home by evening."),
    ("ox", "strength", "mouse", "the gate fell shut",
     "The ox pushed until it had no breath left. The mouse climbed to the bolt and gnawed through the string."),
    ("rooster", "voice", "spider", "a thief came in the night",
     "The rooster slept, because it only calls in the morning. The spider had closed the door with its web, and the thief "
     "believed that nobody had lived there for years."),
    ("goose", "white feathers", "toad", "a hawk stood over the pond",
     "The white feathers could be seen from far away. The toad sat in the mud and told the goose to dive under the leaves."),
    ("horse", "long legs", "goat", "the path was covered with ice",
     "The long legs slipped on every stone. The goat went first, step by step, and the horse put its feet where the goat had stood."),
)  # fmt: skip

#: Obstacles of a journey: what it is, who helps, how, and what for.
JOURNEYS: Final = (
    ("river", "the bridge was gone", "the ferryman", "rowed {him} across against the wind"),
    ("forest", "it grew dark between the trees", "a charcoal burner", "walked ahead with a lantern"),
    ("mountain", "snow lay on the path", "a shepherd", "showed {him} the way that the goats take"),
    (
        "marsh",
        "the ground was soft and deep",
        "an old woman with a stick",
        "told {him} to step only where the grass was yellow",
    ),
    ("lake", "the ice was thin", "a fisher", "tested the ice with an iron bar before every step"),
    ("plain", "there was no tree and no sign", "a peddler", "drew the way into the dust with a finger"),
)

ERRANDS: Final = (
    ("a bottle of medicine", "{his} aunt, who had a fever", "The fever was gone after two days."),
    ("a letter", "the teacher in the next town", "The teacher read it twice and smiled."),
    ("a basket of eggs", "the wedding of a cousin", "Not one of the eggs was broken."),
    ("a bag of seeds", "a friend whose field was bare", "In summer the field was green."),
    ("a pair of boots", "{his} brother, who worked in the mine", "They fitted as if they had grown on his feet."),
    ("a violin", "the old musician", "He tuned it and played until midnight."),
)
