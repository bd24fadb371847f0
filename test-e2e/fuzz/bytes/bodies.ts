import { deflateSync, gzipSync } from 'node:zlib'
import { type Dice, diceOf } from '../../support/dice.ts'
import { NASTY_JSON } from './nasty-json.ts'

/** Stands in bodies, keys and headers, and must not stand in a log. */
export const SECRET = 's3cret'

interface Making {
  /** About so many bytes. */
  readonly size: number
  /** JSON text of the key that the body holds, if it can hold one. */
  readonly key: string
  readonly dice: Dice
}

type MakeBody = (making: Making) => Uint8Array | string

/** An object with the key, and JSON text beside it. */
const around = (key: string, value: string): string =>
  `{"id":${key},"secret":"${SECRET}","value":${value}}`

const text = (size: number): string => JSON.stringify('x'.repeat(size))

const holding =
  (value: (making: Making) => string): MakeBody =>
  (making) =>
    around(making.key, value(making))

function randomBytes(size: number, dice: Dice): Buffer {
  const bytes = Buffer.alloc(size)
  for (let at = 0; at < size; at += 1) bytes[at] = Math.floor(dice.next() * 256)
  return bytes
}

/** Bytes in the middle of valid JSON. */
const broken =
  (...bytes: readonly number[]): MakeBody =>
  ({ key, size }) =>
    Buffer.concat([
      Buffer.from(`{"id":${key},"secret":"${SECRET}`),
      Buffer.from(bytes),
      Buffer.from(`${'x'.repeat(size)}"}`),
    ])

const NASTY: Readonly<Record<string, MakeBody>> = Object.fromEntries(
  Object.entries(NASTY_JSON).map(([name, make]) => [
    name,
    holding(({ size }) => make(Math.max(64, size))),
  ]),
)

/** Every kind of body. The same salt makes the same bytes. */
export const BODIES: Readonly<Record<string, MakeBody>> = {
  ...NASTY,
  text: holding(({ size }) => text(size)),
  'text of many bytes': holding(({ size }) => JSON.stringify('€😀'.repeat(size / 7))),
  'numbers out of range': holding(() => '[1e400,-1e400,1e-400,123456789012345678901234567890,-0]'),
  'lone surrogates': holding(({ size }) => `["\\ud800","\\udc00${'\\ud800'.repeat(size / 6)}"]`),
  NULs: holding(({ size }) => `"${'\\u0000'.repeat(1 + size / 6)}"`),
  prototypes: ({ key }) => `{"__proto__":{"id":"no"},"constructor":1,"id":${key},"toString":null}`,
  'one name twice': ({ key }) => `{"id":"${SECRET}","id":${key}}`,
  'names of every kind': holding(() => '{"":1,"\\u0000":2,"\\ud800":3,"é":4,"é":5,"1":6,"-1":7}'),
  'a list': ({ key }) => `[${key},"${SECRET}"]`,
  'a scalar': ({ dice }) => dice.pick(['null', 'true', '0', '-0', '""', '1e400', `"${SECRET}"`])!,
  empty: () => '',
  'white space': ({ size }) => ' \n\t\r'.repeat(size / 4),
  'JSON among white space': (making) => `\n\t ${around(making.key, text(making.size))} \r\n`,
  'a BOM': (making) => `\uFEFF${around(making.key, text(making.size))}`,
  'two BOMs': (making) => `\uFEFF\uFEFF${around(making.key, '1')}`,
  'UTF-16': (making) => Buffer.from(around(making.key, text(making.size)), 'utf16le'),
  'a byte that is no UTF-8': broken(0xff),
  'a surrogate in UTF-8': broken(0xed, 0xa0, 0x80),
  'overlong UTF-8': broken(0xc0, 0x80),
  'a raw NUL': broken(0),
  'raw control characters': broken(1, 31, 127),
  'cut JSON': (making) => around(making.key, text(making.size)).slice(0, -2),
  'two documents': ({ key }) => `${around(key, '1')}${around(key, '2')}`,
  'a secret and no JSON': ({ size }) => `${SECRET} ${'x'.repeat(size)}`,
  'no JSON at the end': ({ key, size }) => `${around(key, text(size))} ${SECRET}`,
  'deep and never closed': ({ size }) => '[{"a":'.repeat(size / 6),
  XML: ({ size }) => `<secret>${SECRET}</secret>${'<a>'.repeat(size / 3)}`,
  gzip: (making) => gzipSync(around(making.key, text(making.size))),
  deflate: (making) => deflateSync(around(making.key, text(making.size))),
  'random bytes': ({ size, dice }) => randomBytes(size, dice),
}

/** The bytes of a body. */
export function bodyOf(
  { kind, size, salt }: { readonly kind: string; readonly size: number; readonly salt: number },
  key: string,
): Buffer {
  const make = BODIES[kind]
  if (make === undefined) throw new Error(`no body is called ${kind}`)
  return Buffer.from(make({ size, key, dice: diceOf(salt) }) as string)
}
