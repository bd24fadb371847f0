export const replay: string = `
-- An operator lets dead events run again: due now, with a full set of attempts. Answers 1, or 0 for an event that is
-- not dead.
local answers = {}
for i, key in ipairs(KEYS) do
  local state = get(key)
  local dead = state and state.kind == 'x'
  if dead then
    state.parked = '1'
    put_waiting(key, state, 0, now)
  end
  answers[i] = dead and 1 or 0
end
return answers
`
