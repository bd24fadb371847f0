import { describe, expect, it } from 'vitest'
import { inline, literal } from './sql-literal.ts'

describe('literal', () => {
  it.each([
    [null, 'null'],
    [undefined, 'null'],
    ['', "''"],
    ["it's", "'it''s'"],
    ['\\', " E'\\\\'"],
    ["\\'; drop table t; --", " E'\\\\''; drop table t; --'"],
  ])('writes %j', (value, written) => {
    expect(literal(value)).toBe(written)
  })
})

describe('inline', () => {
  it('replaces parameters by literals, whatever the values look like', () => {
    expect(inline('select $2, $1::text, $10', ['$2', "a'$1", ...Array(7), 'ten'])).toBe(
      "select 'a''$1', '$2'::text, 'ten'",
    )
  })

  it('writes null for a parameter without a value', () => {
    expect(inline('select $1, $2', ['v'])).toBe("select 'v', null")
    expect(inline('select $1')).toBe('select null')
  })

  it('does not change quoted names and strings of the statement', () => {
    expect(inline(`select '$1' from "a$1""b".t where x = $1`, ['v'])).toBe(
      `select '$1' from "a$1""b".t where x = 'v'`,
    )
  })
})
