import fc from 'fast-check'
import { expect, test } from 'vitest'
import { bodyText } from './body.ts'

const whole = (body: Uint8Array) => ({ body, bodyBytes: body.byteLength, isOmitted: false })
const of = (text: string) => whole(Buffer.from(text))

test.each([
  ['{"a":1}', 'auto', 'json', '{\n  "a": 1\n}'],
  ['{"a":1}', 'text', 'text', '{"a":1}'],
  ['plain', 'auto', 'text', 'plain'],
  ['plain', 'json', 'text', 'plain'],
  ['\u001b[31m', 'auto', 'text', '\\u{1b}[31m'],
  ['', 'auto', 'empty', ''],
] as const)('%j as %s is shown as %s', (body, form, shownAs, text) => {
  expect(bodyText(of(body), form)).toEqual({ form: shownAs, text })
})

// Red before for digits on both sides of the point: JavaScript leaves out the last ones.
test.each([
  '{"id":12345678901234567890}',
  '{"id":9007199254740993}',
  '{"n":1e400}',
  '{"n":0.123456789012345678}',
  '{"n":12345678.123456789012}',
])('a number that JavaScript cannot hold is shown as it was sent: %s', (sent) => {
  expect(bodyText(of(sent), 'auto')).toEqual({ form: 'json', text: sent })
})

test.each(['123456789012345', '1.5', '12345678.1234567', '-0.25'])(
  'a number that JavaScript can hold is indented: %s',
  (number) => {
    const text = `[\n  ${number}\n]`
    expect(bodyText(of(`[${number}]`), 'auto')).toEqual({ form: 'json', text })
  },
)

test('a full row of hex shows printable ASCII, from the space to the tilde', () => {
  const row = Uint8Array.of(0x1f, 0x20, 0x7e, 0x7f, ...Buffer.from('0123456789ab'))
  expect(bodyText(whole(row), 'hex').text).toBe(
    '00000000  1f 20 7e 7f 30 31 32 33 34 35 36 37 38 39 61 62  . ~.0123456789ab',
  )
})

test('bytes that are no text are shown in hex, with offset and characters', () => {
  expect(bodyText(whole(Uint8Array.of(0xff, 0x41, 0x1b)), 'auto')).toEqual({
    form: 'hex',
    text: `00000000  ff 41 1b${' '.repeat(39)}  .A.`,
  })
})

test('a cut body says how much is shown, and a character that was cut in two is left out', () => {
  const body = Buffer.from('aé').subarray(0, 2)
  expect(bodyText({ body, bodyBytes: 10_485_760, isOmitted: false }, 'auto')).toEqual({
    form: 'text',
    text: 'a',
    note: 'The first 2 bytes of 10 MiB. More: --max-bytes, or --body raw.',
  })
})

// A cut number is another number.
test.each([
  ['', 'The first 0 bytes of 3 bytes. More: --max-bytes, or --body raw.'],
  ['12', 'The first 2 bytes of 3 bytes. More: --max-bytes, or --body raw.'],
])('the cut body %j is no JSON, and not empty', (text, note) => {
  const stored = { body: Buffer.from(text), bodyBytes: 3, isOmitted: false }
  expect(bodyText(stored, 'auto')).toEqual({ form: 'text', text, note })
})

test('a body that was too large to store says where it is', () => {
  const stored = { body: new Uint8Array(), bodyBytes: 200_000_000, isOmitted: true }
  expect(bodyText(stored, 'auto')).toMatchObject({
    form: 'not-stored',
    note: expect.stringContaining("broker's dead-letter place"),
  })
})

test('hex shows every byte of any body', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 100 }), (body) => {
      const { text } = bodyText(whole(body), 'hex')
      const digits = text.split('\n').map((row) => row.slice(10, 57).replaceAll(' ', ''))
      expect(digits.join('')).toBe(Buffer.from(body).toString('hex'))
    }),
  )
})
