"""Why is it off? Each op's share of the final error, what it adds and what it magnifies, and where PCC hides it."""
