import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import * as conventions from '@opentelemetry/semantic-conventions/incubating'
import { expect, test } from 'vitest'
import { CONVENTIONS, CONVENTIONS_VERSION, METRICS, OWN, PROCESS, SYSTEMS } from './names.ts'

const main = createRequire(import.meta.url).resolve('@opentelemetry/semantic-conventions')
const read = (path: string): string => readFileSync(new URL(path, `file://${main}`), 'utf8')

/** Every constant of the package whose documentation does not call it deprecated, by value. */
function current(): ReadonlySet<unknown> {
  const texts = ['stable_attributes', 'experimental_attributes', 'experimental_metrics'].map(
    (name) => read(`./${name}.d.mts`),
  )
  const constants = texts.flatMap((text) =>
    [...text.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\ndeclare const (\w+)/g)].flatMap(
      ([, comment = '', name = '']) => (comment.includes('@deprecated') ? [] : [name]),
    ),
  )
  return new Set(constants.map((name) => Reflect.get(conventions, name)))
}

test('the names are those of the stated release of the conventions, and none is deprecated there', () => {
  expect(JSON.parse(read('../package.json')).version).toBe(CONVENTIONS_VERSION)
  const known = current()
  expect(known.has('messaging.system')).toBe(false)
  for (const name of [...Object.values(CONVENTIONS), ...Object.values(SYSTEMS), PROCESS])
    expect(known, name).toContain(name)
})

test('the names of onceward are told apart from those of the conventions', () => {
  const own = [...Object.values(OWN), ...METRICS.map(({ name }) => name)]
  const foreign = own.filter((name) => !name.startsWith('onceward.'))
  expect(foreign).toEqual([CONVENTIONS.processDuration])
  expect(new Set(METRICS.map(({ name }) => name)).size).toBe(METRICS.length)
})
