import { expect, test } from 'vitest'
import { isConnectionString, shown } from './shown.ts'

const hidden = (text: string, as: string): string =>
  `<${text.length} characters that look like a ${as}>`

test.each([
  'postgres://user:pw@host/db',
  'user@host',
  'host=db password=hunter2',
  'PASSWD=x',
  'pwd = x',
  'secret=x',
  'token\t=x',
  'AccessKey=x',
  'Endpoint=sb;SharedAccessKey=x',
])('a text that may contain a secret is not shown: %s', (text) => {
  expect(shown(text)).toBe(hidden(text, 'connection string'))
})

test.each(['orders', 'mypassword=x', 'password', 'tokens=3', 'a:/b', ''])(
  'a text without a secret is shown: %s',
  (text) => {
    expect(shown(text)).toBe(text)
  },
)

const KEY = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'

test.each([
  KEY,
  'abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123',
  '0/+0/+0/+0/+0/+0/+0/+0/+0/+0/+0/+0/+0/Aa',
])('a secret access key of AWS is not shown: %s', (key) => {
  expect(shown(key)).toBe(hidden(key, 'secret key'))
})

test.each([
  ['has a character less', KEY.slice(1)],
  ['has a character more', `${KEY}a`],
  ['has no small letters', KEY.toUpperCase()],
  ['has no capital letters', KEY.toLowerCase()],
  ['has no digits', KEY.replaceAll('7', 'x')],
  ['has another character before', `-${KEY.slice(1)}`],
  ['has another character behind', `${KEY.slice(1)}-`],
])('a text that %s is no secret access key', (_, text) => {
  expect(shown(text)).toBe(text)
})

test('a text is shown in one line and up to eighty characters', () => {
  expect(shown('two\nlines "quoted"')).toBe('two\\nlines \\"quoted\\"')
  const longest = 'a'.repeat(80)
  expect(shown(longest)).toBe(longest)
  expect(shown(`${longest}b`)).toBe(`${longest}…`)
})

test('a text with the scheme of a URL is a connection string', () => {
  expect(['redis://host', 'orders', 'a:b'].map(isConnectionString)).toEqual([true, false, false])
})
