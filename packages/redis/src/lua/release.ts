export const release: string = `
-- Releases claims whose event did not run, so the attempt does not count. For each event: owner. Answers 1 held,
-- 0 lost.
local answers = {}
for i, key in ipairs(KEYS) do
  local state = mine(key, ARGV[2 + i])
  if state and state.by == 'takeover' then
    -- As before the takeover, so the next claim is one again.
    state.owner, state.till, state.attempt = '-', math.min(state.till, now), state.attempt - 1
    put_progress(key, state)
  elseif state and state.attempt <= 1 and state.parked == '0' then redis.call('DEL', key)
  elseif state then put_waiting(key, state, math.max(0, state.attempt - 1), now) end
  answers[i] = state and 1 or 0
end
return answers
`
