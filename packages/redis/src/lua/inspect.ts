export const inspect: string = `
-- For operators: the state of events, unchanged. Answers for each: kind ('' absent, '?' not readable), whether it has a
-- done mark (1 or 0), ms left of the lease or the wait, attempt, how the claim was taken or why the event is dead.
local answers = {}
for i = 1, #KEYS / STRIDE do
  local place = 1 + (i - 1) * STRIDE
  local state = get(KEYS[place])
  local marked = MARK_MS > 0 and mark_of(place) and 1 or 0
  if not state then answers[i] = { '', marked, 0, 0, '' }
  else
    local left = state.till and whole(state.till - now) or '0'
    answers[i] = { state.kind, marked, left, state.attempt or 0, state.by or state.reason or '' }
  end
end
return answers
`
