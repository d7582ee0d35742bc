"""Everyday sentences, for calibrating an index that has no captions of its own.

They name as many different things as possible, in as many styles as people search in, so that nearly every one is
unrelated to nearly every picture of any collection.
"""

from __future__ import annotations

SENTENCES = """
a plate of spaghetti with tomato sauce
two kittens asleep in a laundry basket
a tractor ploughing a muddy field
the dentist looks at an X-ray
a row of colourful beach huts
sunset over the harbour
a violinist tuning her instrument before the concert
empty office with grey carpet
a bowl of fresh cherries on a wooden table
three nuns waiting at a bus stop
birthday cake with candles
an old typewriter
a goalkeeper dives for the ball
fog between pine trees
close-up of a bee on lavender
a man repairs the engine of a motorcycle
the queue in front of the museum
wedding rings on a velvet cushion
a snowplough clears the mountain road
children painting eggs
a train crossing a stone viaduct
receipt from a supermarket
a woman in a red coat walks through the rain
hot air balloons at dawn
a lighthouse in a storm
grandfather asleep in his armchair
a pile of unfolded clothes
the skeleton of a dinosaur
a surfer paddles out through the waves
street musicians play accordion and trumpet
a parrot on someone's shoulder
steam rises from a cup of tea
two old men play chess in the park
a kitchen with green tiles
fireworks above the river
a mechanic lies under a car
the moon behind thin clouds
a farmer feeds the chickens
a bicycle leans against a brick wall
newborn baby in a striped hat
a shelf full of dusty books
passengers board a ferry
a black horse gallops along a fence
a whiteboard covered with equations
a boy loses his ice cream
cactus in a clay pot
an astronaut floats outside the station
a couple dances in an empty ballroom
a broken window
market stall with oranges and lemons
a cyclist crosses the finishing line
a fox in the snow
the judge reads the verdict
two surgeons operate under bright lamps
sheep block a narrow country lane
a girl blows soap bubbles
screenshot of an error message
a tent beside a mountain lake
spiral staircase seen from above
a waiter carries six plates
dolphins leap beside the boat
a muddy pair of boots
an escalator in a shopping centre
a cat looks out of the window
skyscrapers at night
a man with a beard smokes a pipe
a basket of mushrooms
the choir sings in the cathedral
a toddler takes her first steps
graffiti on a railway bridge
a chess board in the middle of a game
a lorry unloads gravel
pumpkins on a porch
an old woman knits by the stove
a climber hangs from an overhanging rock
a jar of pickled cucumbers
a rainbow above a wheat field
soldiers march past the palace
a squirrel steals nuts from a bird table
a laptop beside a cold coffee
the bride throws her bouquet
a flooded street
a puppy chews a slipper
autumn leaves on a pond
a crowded underground train
a potter shapes a vase on the wheel
three penguins on an ice floe
a business card
a firefighter climbs the ladder
the bakery window on a Sunday morning
a swimmer touches the wall
a goat stands on the roof of a hut
neon signs in a narrow alley
a hand holds a golden key
a family eats dinner in front of the television
a desert road to the horizon
tulips in rows of red and yellow
a boxer sits in his corner
a blackboard with the menu of the day
a snowman with a carrot nose
a fisherman mends his nets
an aeroplane lands at dusk
a hedgehog drinks from a saucer
a dancer stretches at the bar
a wooden bridge over a stream
spices in small brass bowls
a teenager skateboards down the steps
an X-ray of a broken arm
a windmill beside a canal
a pregnant woman on a sofa
the orchestra from behind the conductor
a glass of red wine and some cheese
laundry hangs between two houses
a hurdler in mid-air
a map of the world
a man sleeps on a park bench under newspapers
a cow looks into the camera
tea ceremony in a paper-walled room
a toy robot
a girl rides on her father's shoulders
ruins of a Roman temple
a bowl of noodle soup with an egg
a zebra crossing in heavy rain
a nurse takes a blood sample
vineyards in the evening sun
a drummer with flying hair
a spider's web with dew
a snowboarder jumps over a rock
a kite stuck in a tree
an empty swimming pool
a shepherd with his dog and flock
a garage full of old tools
the finish of a horse race
a street cleaner sweeps leaves
a crocodile with its mouth open
a handwritten letter
a picnic on a checked blanket
a crane above a building site
a boy reads under the covers with a torch
a bunch of ripe bananas
two women laugh over their phones
waterfall in the jungle
a referee shows the red card
a vintage car at a petrol station
a tailor measures a customer's sleeve
frost on a window pane
a rowing boat on a calm lake
an owl in a hollow tree
a protest with banners and drums
a baby elephant follows its mother
a pair of glasses on an open book
cherry blossom along the river
a gymnast on the beam
a bathroom with a blue mosaic
a lorry driver eats a sandwich
a peacock spreads its tail
lightning over the city
a girl with braids plays hopscotch
a pizza fresh from the oven
a submarine at the surface
a beekeeper lifts a frame of honey
a gondola under a bridge
a hospital corridor
a street in the old town with cobbles and lanterns
a man shovels snow from his drive
a jellyfish in dark water
a golfer in a sand trap
a caravan of camels
a magician pulls a rabbit out of a hat
a tower of pancakes with syrup
a dog waits outside a shop
a volcano with a plume of smoke
a woman waters the plants on her balcony
a diagram of the human heart
two wrestlers on a mat
a sleeping koala
a carousel with painted horses
a barber shaves a customer
a pile of logs
the inside of a clock
a girl in a wheelchair plays basketball
a castle on a hill
an iceberg
a tram full of commuters
a barbecue in the garden
a glider above the valley
a chest of drawers
students throw their caps into the air
a frog on a lily pad
a sandcastle before the tide
an auction of paintings
a wolf howls
a potato
a quiet library with green lamps
a plumber under the sink
running
a group of friends
red and white
a black and white portrait of an old sailor
nobody on the beach
my holiday in the mountains
""".strip().splitlines()
