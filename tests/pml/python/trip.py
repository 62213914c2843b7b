"""schemas/trip.xml as Python functions. The texts are the same, line for line."""
# ruff: noqa: E501

from __future__ import annotations

from typing import Annotated

from promptcache.pml.python import MaxTokens, schema, system, user


@schema
def sereno(beaches: bool = False, food: bool = False):
    """
    Destination: Porto Sereno
    Porto Sereno is a fishing town of 18,000 people in the south.
    Its harbour is painted in blue and yellow, and the white lighthouse on the pier was built in 1874.
    The town is quiet in spring and full in August.
    The Hotel Albatross on Harbour Street has double rooms for 85 euros a night, with breakfast.
    A cheaper place is the Pension Luna behind the church, where a room costs 52 euros.
    The tourist office is open from 9:00 to 17:00 and lends bicycles for free.
    The market on Fish Square is held every Saturday morning.
    """
    if beaches:
        """
        Beaches: Pearl Beach is three kilometres long, and its water is shallow, so it is the best beach for children.
        Windy Point is the beach for surfers. A surfboard costs 20 euros a day there.
        The small beach Cala Rosa can be reached only by boat. The boat leaves the pier at 10:30 and costs 12 euros.
        """
    if food:
        """
        Food: The restaurant Casa Marisol is known for grilled sardines with lemon, which cost 14 euros.
        The bakery Forno Velho sells warm almond cakes from six in the morning.
        On Friday evenings the fishermen cook a soup at the pier, and everybody pays what they like.
        """


@schema
def kaldvik(museums: bool = False, boats: bool = False):
    """
    Destination: Kaldvik
    Kaldvik is a port at the end of a long fjord in the north, with 9,500 people and red wooden houses.
    In June it does not get dark before midnight.
    The Fjord House is a hotel with 24 rooms above the water. A double room costs 130 euros a night.
    The youth hostel in the old rope factory has beds for 38 euros.
    The swimming pool in the harbour is heated to 28 degrees and is open all year.
    It often rains in the afternoon, so a raincoat should be in every bag.
    """
    if museums:
        """
        Museums: The Whale Museum shows the skeleton of a blue whale that is 24 metres long. A ticket costs 15 euros.
        The Museum of Knots is closed on Mondays and is free for children under twelve.
        The house of the painter Signe Holm is open in July and August only.
        """
    if boats:
        """
        Boat trips: The seal safari leaves at 11:00, takes three hours and costs 45 euros.
        The steamship Aurora, built in 1911, sails to the glacier every Wednesday and Sunday.
        Kayaks can be rented for 30 euros a day, and a guide costs 25 euros more.
        """


@schema
def montelar(hiking: bool = False, wine: bool = False):
    """
    Destination: Montelar
    Montelar is a village of 2,300 people in the wine hills, forty kilometres from the sea.
    It is 740 metres high, and the evenings are cool even in July.
    The Inn of the Three Bells has twelve rooms. A double room costs 70 euros a night, with a breakfast of bread, ham and honey.
    The hot spring under the old mill has 36 degrees. The bath is open until 22:00, and the entrance costs 9 euros.
    The grape harvest begins in the second week of September, and visitors are welcome to help.
    The only bank machine stands beside the town hall.
    """
    if hiking:
        """
        Hiking: The Hermit's Path leads to a chapel on the rock. It is eight kilometres long and takes three hours.
        The Ridge Trail is 19 kilometres long and is meant for people who walk in the mountains often.
        Maps are sold in the bookshop for 6 euros. There is no water on the way, so carry two litres for each person.
        """
    if wine:
        """
        Wine: The winery Castel Bruna offers a tasting of five wines for 18 euros, every day at 16:00.
        The red wine of the village is called Garnasca. It is stored in oak for two years.
        Grape juice for children is free at all tastings.
        """


@schema
def brennick(museums: bool = False, food: bool = False):
    """
    Destination: Brennick
    Brennick is a university town of 85,000 people, with eleven bridges over the river Aune.
    The university was founded in 1432, and its library is the oldest of the region.
    The Hotel Scholar is next to the cathedral. A double room costs 98 euros a night, and 80 euros on weekends.
    In summer, students' rooms in the North Hall are rented to guests for 35 euros.
    The trams are free for everybody who has a hotel card.
    The lights festival, on the last weekend of October, brings 40,000 visitors.
    """
    if museums:
        """
        Museums: The Clock Museum has 600 clocks, and at noon all of them strike. A ticket costs 11 euros.
        The Gallery of Modern Art is free on Thursday evenings.
        The cathedral tower has 312 steps and closes at 18:00.
        """
    if food:
        """
        Food: The student restaurant Copper Kettle serves a dish of the day for 8 euros.
        The café Lindenhof is famous for its plum cake.
        The best restaurant is the River Room, where a menu of four courses costs 65 euros. A table must be booked a week before.
        """


@schema
def tamarin(beaches: bool = False, diving: bool = False):
    """
    Destination: Tamarin Bay
    Tamarin Bay is a row of five villages around a warm, round bay in the far south, with palm trees along the road.
    The sea has 25 degrees in September.
    The Bay Resort has a pool, a tennis court and a kindergarten. A double room costs 160 euros a night, with all meals.
    The camping ground Blue Parrot takes tents for 22 euros a night.
    A small open train connects the five villages every 20 minutes. A day ticket costs 4 euros.
    Shops are closed from 13:00 to 16:00, because of the heat.
    """
    if beaches:
        """
        Beaches: Long Sand, in the middle of the bay, has lifeguards from 10:00 to 18:00.
        Turtle Cove is closed at night in May and June, when the turtles lay their eggs.
        Two chairs and an umbrella cost 15 euros a day on every beach.
        """
    if diving:
        """
        Diving: The diving school Octopus gives a course for beginners in three days, for 240 euros.
        The wreck of the ship Santa Pia lies 18 metres deep and is full of fish.
        Snorkels and masks are rented for 7 euros a day.
        """


@schema
def trip(
    destination: str | None = None,
    beaches: bool = False,
    food: bool = False,
    museums: bool = False,
    boats: bool = False,
    hiking: bool = False,
    wine: bool = False,
    diving: bool = False,
    weather: bool = False,
    transport: str | None = None,
    plan: bool = False,
    days: Annotated[str, MaxTokens(4, scaffold="seven")] = "three",
    budget: Annotated[str, MaxTokens(8, scaffold="1,000")] = "900",
    wishes: bool = False,
    text: Annotated[str | None, MaxTokens(40)] = None,
):
    with system():
        "You are a travel planner. Answer in one or two sentences, with the facts of the notes."
    with user():
        "These are the notes for a holiday."
        if plan:
            f"The trip is for {days} days and may cost {budget} euros."
        if wishes:
            f"The wishes of the traveller: {text}"
        match destination:
            case "sereno":
                sereno(beaches=beaches, food=food)
            case "kaldvik":
                kaldvik(museums=museums, boats=boats)
            case "montelar":
                montelar(hiking=hiking, wine=wine)
            case "brennick":
                brennick(museums=museums, food=food)
            case "tamarin":
                tamarin(beaches=beaches, diving=diving)
        if weather:
            """
            Weather in the region: July and August are hot and dry, with 29 degrees in the south and 19 in the north.
            May, June and September are mild, and prices are a fifth lower than in August.
            From November to March many hotels are closed, and the mountain roads can be covered with snow.
            The emergency number is 112 everywhere.
            """
        match transport:
            case "train":
                """
                Getting there: by train
                The express leaves the capital every day at 8:20 and stops in all towns and villages of the region. The journey takes six hours.
                A ticket costs 59 euros, and children under ten travel for free. Seats must be reserved in July and August.
                """
            case "night_bus":
                """
                Getting there: by night bus
                The night bus leaves the capital at 22:15 from platform nine and arrives at 7:30 in the morning.
                A ticket costs 27 euros. One suitcase for each passenger is free, and a second one costs 5 euros.
                """
            case "plane":
                """
                Getting there: by plane
                The flight from the capital takes 55 minutes and costs about 140 euros.
                From the airport a shuttle bus runs every hour to all towns and villages. It costs 16 euros and takes 50 minutes.
                """
            case "car":
                """
                Getting there: by car
                From the capital it is 510 kilometres on the motorway A7. The toll is 31 euros.
                The old towns are closed to cars, so the car stays in a car park for about 10 euros a day.
                """
