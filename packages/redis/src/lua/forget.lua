-- An operator lets events be unknown again, whatever they were. Answers 1, or 0 for what was unknown or is not ours.
-- There are no marks here: they are of guards with an inbox, where Postgres decides.
local answers = {}
for i, key in ipairs(KEYS) do
  local state = get(key)
  answers[i] = state and state.kind ~= '?' and redis.call('DEL', key) or 0
end
return answers
