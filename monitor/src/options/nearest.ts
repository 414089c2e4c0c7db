// What somebody may have meant who has typed a word that there is not.
import leven from 'leven';

/** The rest of a sentence that ends with the word; empty: none of the names is near enough. */
export function didYouMean(word: string, names: readonly string[], before = ''): string {
  // Half of a short word may be anything.
  const most = Math.min(2, Math.floor(word.length / 2));
  const [nearest] = names
    .map((name) => ({ name, distance: leven(word, name) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance);
  return nearest === undefined ? '' : `; did you mean ${before}${nearest.name}?`;
}
