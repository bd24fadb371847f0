const seed = Number(process.env['ONCEWARD_COMMIT_SEED'] ?? 0)

/**
 * The options of a test that exists once for each of several clients, stores or samples. The seed of the commit chooses
 * those that are tested with it; the nightly tests run the others.
 *
 * @param index - Of the client in its list.
 * @param options.of - How many there are.
 * @param options.count - How many of them a commit tests. Default: 1.
 */
export function turnOf(
  index: number,
  { of, count = 1 }: { readonly of: number; readonly count?: number },
): { readonly tags?: 'nightly'[] } {
  return (index + seed) % of < count ? {} : { tags: ['nightly'] }
}
