export const mark: string = `
-- Remembers events that are done, had no claim and have no result, beside an inbox. KEYS: the two keys where the mark of
-- each event may be. ARGV[3] how long they may be remembered, ms; ARGV[4] for each event 23 bytes: the field of its mark and
-- its fingerprint. Answers as remember does.
local SIZE = 23
local may_mark = mark_lives() <= tonumber(ARGV[3])
local all = ARGV[4]

local answers = {}
for i = 1, #KEYS / 2 do
  local from = (i - 1) * SIZE
  local field, fingerprint = string.sub(all, from + 1, from + 15), string.sub(all, from + 16, from + SIZE)
  local is_foreign = may_mark and not put_mark((i - 1) * 2, fingerprint, field)
  answers[i] = is_foreign and 2 or 1
end
return answers
`
