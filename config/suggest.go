package config

import "strings"

// keys answers the names of all fields in a form.
func keys(form func(string) string) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = form(f.Name)
	}
	return out
}

// suggest answers "; did you mean …?" for a name that is close to a known one,
// else "". Case does not count.
func suggest(name string, known []string) string {
	best, nearest := 1+len(name)/3, ""
	for _, candidate := range known {
		if d := distance(strings.ToUpper(name), strings.ToUpper(candidate)); d < best {
			best, nearest = d, candidate
		}
	}
	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// distance is Levenshtein's, over bytes: names are ASCII. A name far longer
// than any key is not worth the work.
func distance(a, b string) int {
	if len(a) > 4*len(b)+8 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
