import { expect, test } from 'vitest'
import { createStatements } from './index.ts'

/** Texts by their names, those of bodies too. */
function textsOf(statements: object, prefix = ''): readonly (readonly [string, string])[] {
  return Object.entries(statements).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'string'
      ? [[`${prefix}${name}`, value] as const]
      : textsOf(Object(value), `${prefix}${name}.`),
  )
}

const NO_TABLE = ['boundLook', 'boundOperator']

// Red when a part of a statement is missing, which the server would find only when an operator acts.
test.each(textsOf(createStatements('we"ird')))('%s is whole, in the given schema', (name, text) => {
  expect(text).not.toMatch(/undefined|\[object/)
  if (!NO_TABLE.includes(name)) expect(text).toContain('"we""ird"')
})

test('the default schema is onceward', () => {
  expect(createStatements()).toEqual(createStatements('onceward'))
  expect(createStatements().schema).toBe('"onceward"')
})
