"""Pure decisions: question, prompt, scores, policy, outcome. No I/O, no clock, no globals."""
