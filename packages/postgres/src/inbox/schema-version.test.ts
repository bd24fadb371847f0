import { ConfigurationError } from '@onceward/core'
import { expect, test } from 'vitest'
import { checkSchema, SCHEMA_VERSION } from './schema-version.ts'

const NEXT = String(SCHEMA_VERSION + 1)
const FORMER = String(SCHEMA_VERSION - 1)
const NOW = String(SCHEMA_VERSION)

const reading = (row: Readonly<Record<string, unknown>> | undefined) => async () => ({
  rows: row === undefined ? [] : [row],
  rowCount: row === undefined ? 0 : 1,
})

test.each([
  ['of this code', { version: NOW, readable_from: NOW }],
  ['of this code that older code can use', { version: NOW, readable_from: FORMER }],
  ['of this code that do not say from where', { version: NOW }],
  ['that are newer, and say that this code can use them', { version: NEXT, readable_from: NOW }],
])('tables are taken %s', async (_what, row) => {
  expect((await checkSchema('"app"', reading(row))).rows).toEqual([row])
})

test.each([
  ['older', { version: FORMER, readable_from: FORMER }, `have version ${FORMER}, this code needs`],
  ['newer', { version: NEXT, readable_from: NEXT }, `from the code of version ${NEXT} on`],
  ['for newer code', { version: NOW, readable_from: NEXT }, `have version ${NOW}, this code knows`],
  ['newer, and do not say from where', { version: NEXT }, `of version ${NEXT} on`],
  ['without any migration', { version: null, readable_from: null }, 'have version 0, this code'],
  ['without settings', undefined, 'have version 0, this code needs'],
])('tables are refused that are %s', async (_what, row, message) => {
  const checking = checkSchema('"app"', reading(row))
  await expect(checking).rejects.toThrow(ConfigurationError)
  await expect(checking).rejects.toThrow(message)
})

test.each(['3F000', '42P01', '42703'])(
  'tables that are missing are asked for: %s',
  async (code) => {
    const error = Object.assign(new Error('missing'), { code })
    await expect(checkSchema('"app"', () => Promise.reject(error))).rejects.toMatchObject({
      ...{ code: 'ONCEWARD_CONFIGURATION', cause: error },
      message: expect.stringContaining('missing in schema "app": run `await migrate(pool)`'),
    })
  },
)

// Red when an outage at the start looks like a mistake in the configuration.
test.each([new Error('no code'), Object.assign(new Error('down'), { code: '57P03' })])(
  'any other error is as it was thrown: %s',
  async (error) => {
    await expect(checkSchema('"app"', () => Promise.reject(error))).rejects.toBe(error)
  },
)
