import { describe, expect, test } from 'vitest'
import { AnswerError } from './answer-error.ts'
import { listed } from './headers.ts'

describe('the headers of an answer', () => {
  test('are joined if they repeat, but for cookies, which come last', () => {
    const given = { 'Set-Cookie': ['a=1', 'b=2'], Link: ['<a>', '<b>'], link: '<c>' }
    const expected = [
      ['link', '<a>, <b>, <c>'],
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ]
    expect(listed(given)).toEqual(expected)
    const headers = new Headers({ link: '<a>, <b>, <c>' })
    for (const cookie of given['Set-Cookie']) headers.append('set-cookie', cookie)
    expect(listed(headers)).toEqual(expected)
  })

  test('of the connection are left out', () => {
    const own = ['Connection', 'Content-Length', 'Date', 'Keep-Alive', 'Transfer-Encoding', 'TE']
    const others = ['HTTP2-Settings', 'Proxy-Connection', 'Trailer', 'Upgrade']
    const given = Object.fromEntries([...own, ...others, 'x-a'].map((name) => [name, 'b']))
    expect(listed(given)).toEqual([['x-a', 'b']])
  })

  test.each([null, 5, 'a: b', [['a', 'b']], new Map([['a', 'b']])])('are not %o', (headers) => {
    expect(() => listed(headers as never)).toThrow(/to be an object of names and values/)
    expect(() => listed(headers as never)).toThrow(AnswerError)
  })

  test.each([
    ['x-a', 'a\tb ~\x80\xff'],
    ['x-a', ''],
    ["!#$%&'*+.^_`|~09-az", 'b'],
  ])('may be %j: %j', (name, value) => {
    expect(listed({ [name]: value })).toEqual([[name, value]])
  })

  test.each<readonly [string, unknown]>([
    ['x-a', 'a\nb'],
    ['x-a', '\x7f'],
    ['x-a', '\x00b'],
    ['x-a', 'b\u0100'],
    ['x-a', '\u0100b'],
    ['', 'b'],
    ['a b', 'b'],
    ['a:', 'b'],
    [':a', 'b'],
    ['x-a', true],
    ['x-a', null],
    ['x-a', [{}]],
  ])('cannot be %j: %j', (name, value) => {
    expect(() => listed({ [name]: value } as never)).toThrow(/cannot be sent/)
  })
})
