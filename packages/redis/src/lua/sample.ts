export const sample: string = `
-- For the doctor: one random done mark of each key that marks of the given events would be in, as the 15 bytes of its field
-- in hex. Answers for each event the fields, separated by spaces.
local newest = math.floor(now / MARK_MS)
local answers = {}
for i = 1, #KEYS / STRIDE do
  local fields = {}
  for generation = newest - 1, newest do
    -- Two, because one may be the field that holds the generation.
    local some = redis.pcall('HRANDFIELD', bucket_key(1 + (i - 1) * STRIDE, generation), 2)
    for at = 1, some.err and 0 or #some do
      if #some[at] == 15 then
        fields[#fields + 1] = string.gsub(some[at], '.', function(byte) return string.format('%02x', string.byte(byte)) end)
        break
      end
    end
  end
  answers[i] = table.concat(fields, ' ')
end
return answers
`
